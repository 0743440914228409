// Questions to the server.

/** Asks for a part of the data. Text in the address is to be encoded by `path`. */
export async function ask(what) {
  const response = await fetch(`api/${what}`);
  const answer = await response.json().catch(() => ({ error: `the server answered ${response.status}` }));
  if (!response.ok) throw Object.assign(new Error(answer.error), { isAnswer: true });
  return answer;
}

/** An address from its parts. */
export const path = (...parts) => parts.map(encodeURIComponent).join("/");
