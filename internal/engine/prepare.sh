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
  # Made beside its place: a clone that was cut off must not pass for a whole one.
  part="$PARLEY_CLONE_DIR.parley-part"
  rm -rf "$part"
  git clone --quiet -- "$PARLEY_CLONE" "$part"
  cd "$part"
  if [ -n "$PARLEY_BRANCH" ]; then git checkout --quiet "$PARLEY_BRANCH" --; else git checkout --quiet -b "$PARLEY_NEW_BRANCH"; fi
  mv -T "$part" "$PARLEY_CLONE_DIR"
elif [ "${PARLEY_INIT:-}" = here ] && [ ! -d .git ] ||
  [ "${PARLEY_INIT:-}" = outside ] && ! git rev-parse --git-dir >/dev/null 2>&1; then
  git init --quiet --template= .
fi
