package projection

import (
	"fmt"

	"parley/internal/conversation"
)

// userCommand shows what the user ran in the sandbox, or what came of it.
func userCommand(in Input) *Event {
	e, ok := in.Payload.(*conversation.MessageEvent)
	if !ok {
		return nil
	}
	c, ok := conversation.UserCommandOf(e)
	if !ok {
		return nil
	}
	if in.Derived.Recipe == UserRan {
		timeout := runTimeout
		out := action(sourceUser, "run", "Running command: "+c.Command, runArgs{Command: c.Command, Hidden: c.Hidden,
			Confirmation: confirmationOf(Action), SecurityRisk: riskUnknown})
		out.Timeout = &timeout
		return out
	}
	extras := runExtras{Metadata: runMetadata{ExitCode: c.ExitCode, PID: -1}, Hidden: c.Hidden}
	if in.Info.WorkingDir != "" {
		extras.Metadata.WorkingDir = &in.Info.WorkingDir
	}
	if asked, ok := in.Shown.(*conversation.MessageEvent); ok {
		ran, _ := conversation.UserCommandOf(asked)
		extras.Command = ran.Command
	}
	out := observation(sourceUser, "run", cutMiddle(c.Output, maxOutput), extras)
	out.Message = fmt.Sprintf("Command `%s` executed with exit code %d.", extras.Command, c.ExitCode)
	success := c.ExitCode == 0
	out.Success = &success
	return out
}
