package cli

import (
	"errors"

	"parley/internal/conversation"
)

// Exit is the exit code of a client command.
type Exit int

// The exit codes. README.md documents them.
const (
	ExitOK           Exit = 0 // the run finished
	ExitFailure      Exit = 1 // something else failed
	ExitUsage        Exit = 2 // wrong flags, arguments or configuration
	ExitAgentError   Exit = 3 // the run ended with an error
	ExitStuck        Exit = 4 // the agent repeats itself and was stopped
	ExitInterrupted  Exit = 5 // interrupted or paused, or left while it was running
	ExitConfirmation Exit = 6 // it waits for a confirmation that nobody can give here
	ExitServer       Exit = 7 // the server cannot be reached or refuses the key
)

// exitOf maps the state a conversation was left in.
func exitOf(s conversation.Status) Exit {
	switch s {
	case conversation.Error:
		return ExitAgentError
	case conversation.Stuck:
		return ExitStuck
	case conversation.Paused, conversation.Running:
		return ExitInterrupted
	case conversation.WaitingConfirmation:
		return ExitConfirmation
	case conversation.Deleting:
		return ExitFailure
	}
	return ExitOK
}

// ExitOf maps an error of this package.
func ExitOf(err error) Exit {
	var api *APIError
	var away *UnreachableError
	switch {
	case err == nil:
		return ExitOK
	case errors.As(err, &away):
		return ExitServer
	case errors.As(err, &api) && (api.Status == 401 || api.Status == 403):
		return ExitServer
	}
	return ExitFailure
}
