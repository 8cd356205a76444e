package sandboxtest_test

import (
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"parley/internal/sandbox"
	"parley/internal/sandbox/process"
	"parley/internal/sandbox/sandboxtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestAttacksAreReal runs the escapes where nothing is isolated: an attack that
// fails everywhere proves nothing. It is also the list of what the backend
// process does not hold.
func TestAttacksAreReal(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "boxes")
	exe := sandboxtest.BuildDaemon(t)
	const why = "programs run as the server's user, on its machine"
	sandboxtest.Hostile(t, func(t *testing.T) sandbox.Backend {
		b, err := process.New(process.Options{Dir: dir, Exe: exe, InitArgs: []string{process.Name}, Env: os.Environ()})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}, sandboxtest.HostileOptions{
		DataDir: dir,
		Open: map[sandboxtest.Guarantee]string{
			sandboxtest.HostFiles: why, sandboxtest.HostProcesses: why, sandboxtest.HostSockets: why,
			sandboxtest.HostKeys: why, sandboxtest.HostKernel: why, sandboxtest.HostNetwork: why,
			sandboxtest.Privileges: "nothing is given up",
		},
	})
}
