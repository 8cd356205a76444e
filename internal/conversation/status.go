package conversation

// Status is the state of a conversation's agent loop (agent protocol §2.3).
type Status string

// The execution states.
const (
	Idle                Status = "idle"
	Running             Status = "running"
	Paused              Status = "paused"
	WaitingConfirmation Status = "waiting_for_confirmation"
	Finished            Status = "finished"
	Error               Status = "error"
	Stuck               Status = "stuck"
	Deleting            Status = "deleting"
)

// Statuses lists all states, for validation and tests.
var Statuses = []Status{Idle, Running, Paused, WaitingConfirmation, Finished, Error, Stuck, Deleting}

// Terminal reports whether a run has ended for good or bad.
func (s Status) Terminal() bool { return s == Finished || s == Error || s == Stuck }

// Trigger is what moves a conversation from one state to another.
type Trigger string

// The triggers.
const (
	TrigUserMessage Trigger = "user_message"
	TrigRun         Trigger = "run"
	TrigFinish      Trigger = "finish"    // text-only answer or finish tool
	TrigConfirm     Trigger = "confirm"   // actions wait for confirmation
	TrigReject      Trigger = "reject"    // the user rejected the waiting actions
	TrigPause       Trigger = "pause"     // between steps
	TrigInterrupt   Trigger = "interrupt" // in the middle of a step
	TrigStuck       Trigger = "stuck"
	TrigFail        Trigger = "fail"
	TrigNavigate    Trigger = "navigate" // goes on from another event
	TrigDelete      Trigger = "delete"
)

// Triggers lists all triggers.
var Triggers = []Trigger{TrigUserMessage, TrigRun, TrigFinish, TrigConfirm, TrigReject,
	TrigPause, TrigInterrupt, TrigStuck, TrigFail, TrigNavigate, TrigDelete}

// transitions is the state table; docs/states.md has its picture. A pair that
// is missing is refused. A pair that maps to its own state is accepted and
// changes nothing.
var transitions = map[Status]map[Trigger]Status{
	Idle: {TrigUserMessage: Idle, TrigRun: Running, TrigPause: Paused, TrigInterrupt: Idle,
		TrigFail: Error, TrigNavigate: Idle, TrigDelete: Deleting},
	Running: {TrigUserMessage: Running, TrigFinish: Finished, TrigConfirm: WaitingConfirmation,
		TrigPause: Paused, TrigInterrupt: Paused, TrigStuck: Stuck, TrigFail: Error, TrigDelete: Deleting},
	Paused: {TrigUserMessage: Paused, TrigRun: Running, TrigPause: Paused, TrigInterrupt: Paused,
		TrigFail: Error, TrigNavigate: Idle, TrigDelete: Deleting},
	// Pausing what waits changes nothing: as paused it would run unasked.
	WaitingConfirmation: {TrigUserMessage: WaitingConfirmation, TrigRun: Running, TrigReject: Idle,
		TrigPause: WaitingConfirmation, TrigInterrupt: Paused, TrigFail: Error, TrigNavigate: Idle, TrigDelete: Deleting},
	// A run of a finished conversation without a new message is a no-op success.
	Finished: {TrigUserMessage: Idle, TrigRun: Finished, TrigPause: Finished, TrigInterrupt: Finished,
		TrigFail: Error, TrigNavigate: Idle, TrigDelete: Deleting},
	Error: {TrigUserMessage: Error, TrigRun: Running, TrigPause: Error, TrigInterrupt: Error,
		TrigFail: Error, TrigNavigate: Idle, TrigDelete: Deleting},
	Stuck: {TrigUserMessage: Idle, TrigRun: Running, TrigPause: Stuck, TrigInterrupt: Stuck,
		TrigFail: Error, TrigNavigate: Idle, TrigDelete: Deleting},
	Deleting: {TrigDelete: Deleting},
}

// Next returns the state after trigger, and whether the pair is allowed.
func (s Status) Next(t Trigger) (Status, bool) {
	next, ok := transitions[s][t]
	return next, ok
}
