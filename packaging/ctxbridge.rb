class Ctxbridge < Formula
  desc "{{SUMMARY}}"
  homepage "{{REPOSITORY}}"
  version "{{VERSION}}"
  license "MIT"

  on_macos do
    on_arm do
      url "{{BASE}}/{{ARCHIVE aarch64-apple-darwin}}"
      sha256 "{{SHA256 aarch64-apple-darwin}}"
    end
    on_intel do
      url "{{BASE}}/{{ARCHIVE x86_64-apple-darwin}}"
      sha256 "{{SHA256 x86_64-apple-darwin}}"
    end
  end

  on_linux do
    on_arm do
      url "{{BASE}}/{{ARCHIVE aarch64-unknown-linux-musl}}"
      sha256 "{{SHA256 aarch64-unknown-linux-musl}}"
    end
    on_intel do
      url "{{BASE}}/{{ARCHIVE x86_64-unknown-linux-musl}}"
      sha256 "{{SHA256 x86_64-unknown-linux-musl}}"
    end
  end

  def install
    bin.install "ctxbridge"
    generate_completions_from_executable(bin/"ctxbridge", "completions")
  end

  def caveats
    <<~TEXT
      Next: ctxbridge setup
    TEXT
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/ctxbridge --version")
  end
end
