package conversation_test

import (
	"os"
	"strings"
	"testing"

	"parley/internal/conversation"
)

// want is the state table of the agent protocol (§2.3), written a second time
// from the protocol's side: "-" is refused.
var want = map[conversation.Status]string{
	//                                  user  run      finish    confirm                  reject pause   interrupt stuck  fail   navigate delete
	conversation.Idle:                "idle running - - - paused idle - error idle deleting",
	conversation.Running:             "running - finished waiting_for_confirmation - paused paused stuck error - deleting",
	conversation.Paused:              "paused running - - - paused paused - error idle deleting",
	conversation.WaitingConfirmation: "waiting_for_confirmation running - - idle waiting_for_confirmation paused - error idle deleting",
	conversation.Finished:            "idle finished - - - finished finished - error idle deleting",
	conversation.Error:               "error running - - - error error - error idle deleting",
	conversation.Stuck:               "idle running - - - stuck stuck - error idle deleting",
	conversation.Deleting:            "- - - - - - - - - - deleting",
}

func TestStateTableEveryPair(t *testing.T) {
	for _, from := range conversation.Statuses {
		cells := strings.Fields(want[from])
		if len(cells) != len(conversation.Triggers) {
			t.Fatalf("%s: %d cells for %d triggers", from, len(cells), len(conversation.Triggers))
		}
		for i, trigger := range conversation.Triggers {
			next, ok := from.Next(trigger)
			got := string(next)
			if !ok {
				got = "-"
			}
			if got != cells[i] {
				t.Errorf("%s on %s: got %s, want %s", from, trigger, got, cells[i])
			}
		}
	}
}

// What waits for the user must not run because somebody pressed pause: a paused
// conversation runs its open calls without asking.
func TestWaitingIsNeverPausedWithOpenCalls(t *testing.T) {
	if next, _ := conversation.WaitingConfirmation.Next(conversation.TrigPause); next != conversation.WaitingConfirmation {
		t.Fatalf("pause while waiting leads to %s", next)
	}
}

func TestStatePictureNamesEveryState(t *testing.T) {
	picture, err := os.ReadFile("../../docs/states.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range conversation.Statuses {
		if !strings.Contains(string(picture), string(s)) {
			t.Errorf("docs/states.md does not show %s", s)
		}
	}
}
