seen=:
show() {
	[ -f "$1" ] && [ -x "$1" ] || return 0
	case $seen in *":$1:"*) return 0 ;; esac
	seen=$seen$1:
	printf '%s\n' "$1"
}
show "${CHROME_BIN:-}"
show "${CHROME_PATH:-}"
for name; do
	case $name in
	/*) show "$name" ;;
	*) show "$(command -v "$name" 2>/dev/null)" ;;
	esac
done
downloads=${PLAYWRIGHT_BROWSERS_PATH:-${HOME:-/root}/.cache/ms-playwright}
for file in $(ls -d "$downloads"/chromium-*/chrome-linux*/chrome \
	"$downloads"/chromium_headless_shell-*/chrome-linux*/headless_shell \
	"$downloads"/chromium_headless_shell-*/chrome-headless-shell-linux*/chrome-headless-shell \
	/ms-playwright/chromium-*/chrome-linux*/chrome \
	"${HOME:-/root}"/.cache/puppeteer/chrome/*/chrome-linux*/chrome \
	"${HOME:-/root}"/.cache/puppeteer/chrome-headless-shell/*/*/chrome-headless-shell 2>/dev/null | sort -rV); do
	show "$file"
done
exit 0
