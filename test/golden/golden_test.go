// Package golden_test holds the server against the agent protocol, rule by rule.
// Each scenario drives the real binary over the protocol's HTTP and WebSocket, with
// a model that answers as the scenario says, and compares everything that can be
// seen with a trace in testdata. The traces are documentation: they were derived
// from the protocol by hand, and -update is for those who have read the difference.
//
// A trace reads like this:
//
//	> say "Count." and run        what the client does; "-> 409" if it was refused
//	# full_state running          a full_state frame of the event socket
//	e1 agent SystemPromptEvent    an event, numbered; "parent" only where it has one
//	~ execution_status running    a state update: persisted, and no event of the branch
//	? r1                          what the model is asked; r1 is the name of its answer
//	    system                    ... and the messages that it reads
//
// Texts that the scenario made up stand in quotes. Words of our own are <..>, with
// what they quote of the scenario's texts; they may be changed freely. Not shown
// are ids, times, statistics, members that are empty, a summary that is made of the
// call itself and a risk that is UNKNOWN. That everything has the members that
// clients expect, and no others, is checked apart (shape_test.go), and so is what
// holds for every log (law_test.go).
package golden_test

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"parley/test/testkit/parleytest"
)

var update = flag.Bool("update", false, "write the traces")

func TestMain(m *testing.M) {
	flag.Parse()
	code := m.Run()
	parleytest.Cleanup()
	os.Exit(code)
}

// scenario is one rule of the protocol.
type scenario struct {
	name string // of the file
	rule string // the first paragraph of the trace: what is shown, and where it is written
	play func(p *play)
	// env is for a server of its own; nil = the one that scenarios share.
	env []string
}

func scenarios() []scenario {
	return slices.Concat(answers(), runs(), calls(), repairs(), confirmations(), policies(), waits(), controls(), steering(),
		limits(), repetitions(), memories(), judgements(), goals(), branches(), crashes(), models(), hooks(), extensions())
}

func TestTraces(t *testing.T) {
	house := open(t, nil)
	for _, sc := range scenarios() {
		t.Run(sc.name, func(t *testing.T) {
			t.Parallel()
			h := house
			if sc.env != nil {
				h = open(t, sc.env)
			}
			p := newPlay(t, h, sc.name)
			sc.play(p)
			compare(t, sc.name, sc.rule+"\n\n"+p.end())
		})
	}
}

// compare holds a trace against its file.
func compare(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v\n%s", err, got)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("not as in %s (-want +got):\n%s\nthe whole trace:\n%s", file, diff, got)
	}
}

// TestEveryTraceHasItsScenario finds files that nothing compares.
func TestEveryTraceHasItsScenario(t *testing.T) {
	have, err := filepath.Glob("testdata/*.golden")
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, sc := range scenarios() {
		want = append(want, "testdata/"+sc.name+".golden")
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, have); diff != "" {
		t.Error(diff)
	}
}
