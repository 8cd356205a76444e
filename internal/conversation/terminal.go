package conversation

import (
	"strconv"
	"strings"

	"parley/internal/content"
)

// A command that the user ran in the sandbox, without the agent, is two messages of
// the environment in the log: the command, and then what came of it. Every client of
// the agent protocol can show those, and the model reads them. What they are stands in
// the sender, and their text in parts of their own.

const (
	senderTerminal = "user_terminal"
	senderHidden   = "user_terminal_hidden"
	commandLabel   = "The user ran this command in the sandbox, without you:"
	commandPrompt  = "$ "
	resultLabel    = "The command that the user ran gave:"
)

// UserCommand is a command of the user's, or what came of one, as a message tells it.
type UserCommand struct {
	Hidden   bool   // neither the model nor users see it
	Command  string // "" in a result
	Answers  string // id of the command's message; "" in a command
	Output   string // in a result
	ExitCode int    // in a result; -1 = not known
}

// Message makes the message that tells it.
func (c UserCommand) Message() *MessageEvent {
	sender := senderTerminal
	if c.Hidden {
		sender = senderHidden
	}
	parts := []content.Part{content.Text(commandLabel), content.Text(commandPrompt + c.Command)}
	if c.Answers != "" {
		sender += ":" + c.Answers + ":" + strconv.Itoa(c.ExitCode)
		parts = []content.Part{content.Text(resultLabel), content.Text(c.Output), content.Text("[exit code " + strconv.Itoa(c.ExitCode) + "]")}
	}
	return &MessageEvent{Header: Header{Kind: KindMessage, ID: NewEventID(), Source: SourceEnvironment},
		LLMMessage: LLMMessage{Role: content.RoleUser, Content: parts}, Sender: sender}
}

// UserCommandOf reads what Message made; false if the message is another one. Clients
// cannot send messages of the environment.
func UserCommandOf(e *MessageEvent) (UserCommand, bool) {
	if e.Source != SourceEnvironment {
		return UserCommand{}, false
	}
	name, rest, answers := strings.Cut(e.Sender, ":")
	c := UserCommand{Hidden: name == senderHidden}
	parts := e.LLMMessage.Content
	if name != senderTerminal && name != senderHidden || len(parts) < 2 {
		return UserCommand{}, false
	}
	if !answers {
		c.Command = strings.TrimPrefix(parts[1].Text, commandPrompt)
		return c, true
	}
	id, code, _ := strings.Cut(rest, ":")
	n, err := strconv.Atoi(code)
	if err != nil {
		n = -1
	}
	c.Answers, c.ExitCode, c.Output = id, n, parts[1].Text
	return c, id != ""
}

const filesLabel = "The user attached these files:"

const (
	maxFiles    = 100
	maxFileName = 1024 // bytes
)

// AttachFiles tells the model which files come with a user's message; it must be the
// last that is added to it. Names are cut to one line each.
func AttachFiles(e *MessageEvent, names []string) {
	text := filesLabel
	for _, name := range names[:min(len(names), maxFiles)] {
		name = strings.Join(strings.Fields(name), " ")
		if len(name) > maxFileName {
			name = strings.ToValidUTF8(name[:maxFileName], "")
		}
		if name != "" {
			text += "\n- " + name
		}
	}
	if text != filesLabel {
		e.ExtendedContent = append(e.ExtendedContent, content.Text(text))
	}
}

// AttachedFiles are the files that came with a user's message.
func AttachedFiles(e *MessageEvent) []string {
	if e.Source != SourceUser || len(e.ExtendedContent) == 0 {
		return nil
	}
	lines := strings.Split(e.ExtendedContent[len(e.ExtendedContent)-1].Text, "\n")
	if lines[0] != filesLabel {
		return nil
	}
	var names []string
	for _, line := range lines[1:] {
		names = append(names, strings.TrimPrefix(line, "- "))
	}
	return names
}
