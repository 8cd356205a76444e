# Prepares a conversation's working directory inside its sandbox. Input comes by
# environment only. Doing it twice is harmless.
set -eu
mkdir -p "$PARLEY_DIR"
cd "$PARLEY_DIR"
command -v git >/dev/null 2>&1 || {
  if [ -n "${PARLEY_CLONE:-}" ]; then echo "git is not installed in the sandbox" >&2; exit 1; fi
  exit 0
}
if [ ! -f "$HOME/.gitconfig" ]; then
  printf '[user]\n\tname = %s\n\temail = %s\n[safe]\n\tdirectory = *\n' \
    "${PARLEY_GIT_NAME:-openhands}" "${PARLEY_GIT_EMAIL:-openhands@all-hands.dev}" >"$HOME/.gitconfig"
fi
if [ -n "${PARLEY_CLONE:-}" ] && [ ! -d "$PARLEY_CLONE_DIR/.git" ]; then
  git clone --quiet -- "$PARLEY_CLONE" "$PARLEY_CLONE_DIR"
  cd "$PARLEY_CLONE_DIR"
  if [ -n "$PARLEY_BRANCH" ]; then git checkout --quiet "$PARLEY_BRANCH" --; else git checkout --quiet -b "$PARLEY_NEW_BRANCH"; fi
elif [ -n "${PARLEY_INIT:-}" ] && [ ! -d .git ]; then
  git init --quiet --template= .
fi
