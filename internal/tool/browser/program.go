package browser

import (
	"context"
	_ "embed"
	"strings"
	"time"

	"parley/internal/fault"
	"parley/internal/tool"
)

// names are the programs that can be driven, the best first.
var names = []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome",
	"chrome-headless-shell", "headless_shell", "headless-shell", "microsoft-edge"}

// places are where such a program lies that is not in the PATH.
var places = []string{"/opt/google/chrome/chrome", "/usr/lib/chromium/chromium", "/snap/bin/chromium"}

// missing is what a model reads where there is no browser.
const missing = `There is no Chromium in the sandbox, so that the browser tools do not work. Install one with the terminal, then call this tool again:
- Debian: apt-get update && apt-get install -y chromium
- Ubuntu, or without root: npx playwright install chromium (with root: npx playwright install --with-deps chromium)
Where that is not possible, use curl in the terminal instead of the browser.`

// Installed reports whether look, such as exec.LookPath, finds a program that the
// tools can drive. It speaks of the machine that look looks at; a sandbox with a file
// system of its own may have another answer.
func Installed(look func(string) (string, error)) bool {
	for _, list := range [][]string{names, places} {
		for _, name := range list {
			if _, err := look(name); err == nil {
				return true
			}
		}
	}
	return false
}

// findScript prints what can be driven, the best first, one path per line: what the
// environment names, programs, and what Playwright and Puppeteer have downloaded.
//
//go:embed find.sh
var findScript string

// candidates are the browsers inside a sandbox, three at most.
func candidates(ctx context.Context, hands tool.Hands) ([]string, error) {
	argv := append([]string{"sh", "-c", findScript, "sh"}, append(names, places...)...)
	res, err := hands.Exec(ctx, tool.ExecRequest{Argv: argv, Timeout: 10 * time.Second, MaxOutput: 64 << 10})
	if err != nil {
		return nil, err
	}
	return pick(string(res.Stdout)), nil
}

// pick reads the script's output.
func pick(output string) []string {
	var found []string
	for line := range strings.SplitSeq(output, "\n") {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "/") && len(found) < 3 {
			found = append(found, line)
		}
	}
	return found
}

// isGone tells that a terminal or file does not exist, or not any more.
func isGone(err error) bool { return fault.Is(err, fault.NotFound) || fault.Is(err, fault.Conflict) }
