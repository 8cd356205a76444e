# Fetches a plugin into its place inside the sandbox and prints its commit. Input comes
# by environment only. Doing it twice is harmless.
set -eu
command -v git >/dev/null 2>&1 || { echo "git is not installed in the sandbox" >&2; exit 1; }
if [ ! -d "$PARLEY_CLONE_DIR/.git" ]; then
  # Made beside its place: a clone that was cut off must not pass for a whole one.
  part="$PARLEY_CLONE_DIR.parley-part"
  rm -rf "$part"
  mkdir -p "${PARLEY_CLONE_DIR%/*}"
  git -c core.hooksPath=/dev/null clone --quiet --template= --no-recurse-submodules -- "$PARLEY_CLONE" "$part"
  if [ -n "$PARLEY_REF" ]; then git -C "$part" -c core.hooksPath=/dev/null checkout --quiet "$PARLEY_REF" --; fi
  mv -T "$part" "$PARLEY_CLONE_DIR"
fi
git -C "$PARLEY_CLONE_DIR" rev-parse HEAD
