package sandboxd_test

import (
	"testing"
	"time"

	"parley/internal/sandboxd"
	"parley/internal/tool"
)

// When memory runs out a program must die, not the daemon and the sandbox with it.
func TestProgramsAreTheFirstVictimsWhenMemoryRunsOut(t *testing.T) {
	_, client := serve(t, sandboxd.Options{})
	res, err := client.Exec(t.Context(), tool.ExecRequest{Timeout: 10 * time.Second, // the score comes right after the start
		Argv: []string{"/bin/sh", "-c", `until [ "$(cat /proc/self/oom_score_adj)" = 500 ]; do :; done`}})
	if err != nil || res.ExitCode != 0 {
		t.Fatalf("%+v, %v", res, err)
	}
}
