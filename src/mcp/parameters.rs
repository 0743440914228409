/*!
Parameters of requests that do not have the shape that the protocol gives them.

The SDK hands such a request over as one that it does not know, and the client would be told that there is no such method. Here
the parameter is named, with what it should be.
*/

use serde_json::Value;

use super::error::ToolError;

/// A parameter of a method.
struct Parameter {
    name: &'static str,
    expected: &'static str,
    is_required: bool,
    fits: fn(&Value) -> bool,
}

const NAME: Parameter =
    Parameter { name: "name", expected: "a string, the name of a tool", is_required: true, fits: Value::is_string };
const ARGUMENTS: Parameter = Parameter {
    name: "arguments",
    expected: "an object with the arguments of the tool",
    is_required: false,
    fits: Value::is_object,
};
const URI: Parameter =
    Parameter { name: "uri", expected: "a string, the address of a resource", is_required: true, fits: Value::is_string };

/// Parameters of a method that the server answers; `None` if it answers no such method.
fn parameters_of(method: &str) -> Option<&'static [Parameter]> {
    match method {
        "tools/call" => Some(&[NAME, ARGUMENTS]),
        "resources/read" => Some(&[URI]),
        _ => None,
    }
}

/// The error for a request whose parameters could not be read; `None` if the server answers no such method.
pub(super) fn wrong_parameter(method: &str, params: Option<&Value>) -> Option<ToolError> {
    let parameters = parameters_of(method)?;
    let params = params.unwrap_or(&Value::Null);
    if !params.is_object() && !params.is_null() {
        return Some(ToolError::invalid_argument("params", format!("should be an object, not {}", kind_of(params))));
    }
    for Parameter { name, expected, is_required, fits } in parameters {
        let given = params.get(name).filter(|value| !value.is_null());
        let found = match given {
            None if *is_required => "nothing",
            Some(value) if !fits(value) => kind_of(value),
            _ => continue,
        };
        return Some(ToolError::invalid_argument(name, format!("should be {expected}, not {found}")));
    }
    Some(ToolError::invalid_argument("params", format!("not the parameters of {method}")))
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_parameter_is_named_with_what_it_should_be() {
        for (method, params, message) in [
            ("tools/call", json!({ "name": 1 }), "`name`: should be a string, the name of a tool, not a number"),
            ("tools/call", json!({}), "`name`: should be a string, the name of a tool, not nothing"),
            ("tools/call", Value::Null, "`name`: should be a string, the name of a tool, not nothing"),
            (
                "tools/call",
                json!({ "name": "search", "arguments": ["a"] }),
                "`arguments`: should be an object with the arguments of the tool, not a list",
            ),
            ("tools/call", json!([]), "`params`: should be an object, not a list"),
            ("tools/call", json!({ "name": "search", "requestState": 1 }), "`params`: not the parameters of tools/call"),
            ("resources/read", json!({ "uri": true }), "`uri`: should be a string, the address of a resource, not a boolean"),
        ] {
            let error = wrong_parameter(method, Some(&params)).expect("a method that is answered");
            assert_eq!(error.to_string(), message);
        }
        assert!(wrong_parameter("no/such/method", None).is_none());
    }
}
