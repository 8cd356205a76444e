package hostbox

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"parley/internal/fault"
	"parley/internal/sandbox"
)

// Usage says what the box takes.
func (x *Box) Usage(context.Context) (sandbox.Usage, error) {
	if _, err := os.Lstat(x.dir.path); errors.Is(err, fs.ErrNotExist) {
		return sandbox.Unknown(), fault.New(fault.NotFound, "sandbox_not_found", "The sandbox's files were removed.")
	}
	return sandbox.Unknown(), nil
}
