package image_test

import (
	"os"
	"os/exec"
	"testing"

	"go.uber.org/goleak"
)

// Variables by which a test runs a part of itself in a process of its own.
const (
	killedDir = "IMAGE_TEST_KILLED_DIR"
	killedRef = "IMAGE_TEST_KILLED_REF"
	asUserVar = "IMAGE_TEST_AS_USER"
	fullVar   = "IMAGE_TEST_FULL"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// command runs one test of this binary as another process.
func command(t *testing.T, test string, env ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = self.Close() })
	cmd := exec.Command("/proc/self/fd/3", "-test.run=^("+test+")$", "-test.count=1", "-test.v")
	cmd.ExtraFiles = []*os.File{self} // the binary's directory may be closed to others
	cmd.Env = append(os.Environ(), env...)
	return cmd
}
