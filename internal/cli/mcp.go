package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
)

// testTimeout is how long a server may take to answer a test, in seconds: less than
// a call takes at most.
const testTimeout = 45

// ServerTest is how the test of an MCP server went.
type ServerTest struct {
	OK    bool `json:"ok"`
	Tools []struct {
		Name        string `json:"name"`
		Description string `json:"description"`
	} `json:"tools"`
	Error     string `json:"error"`
	ErrorKind string `json:"error_kind"`
}

// TestServer connects to the MCP server of the settings that has a name. sandboxID is
// where one with a command runs; "" = there is none.
func (c *Client) TestServer(ctx context.Context, name, sandboxID string) (ServerTest, error) {
	body := map[string]any{"name": name, "timeout": testTimeout}
	if sandboxID != "" {
		body["sandbox_id"] = sandboxID
	}
	req, err := c.request(ctx, http.MethodPost, "/api/v1/mcp/test", body)
	if err != nil {
		return ServerTest{}, err
	}
	var t ServerTest
	return t, c.do(req, &t)
}

// ShowServerTest tests an MCP server of the settings and prints what it offers. A
// server with a command is tested in the sandbox of a conversation. The test that
// fails is an error.
func ShowServerTest(ctx context.Context, c *Client, out io.Writer, name, conversationID string) error {
	sandbox := ""
	if conversationID != "" {
		conv, found, err := c.Conversation(ctx, conversationID)
		if err != nil {
			return err
		}
		if !found {
			return fmt.Errorf("there is no conversation %s on %s", CleanLine(conversationID), c.Base())
		}
		sandbox = conv.SandboxID
	}
	t, err := c.TestServer(ctx, name, sandbox)
	if err != nil {
		return err
	}
	if !t.OK {
		text := cut(CleanLine(t.Error), 2000)
		if sandbox == "" && conversationID == "" {
			text += "\nA server with a command runs in a sandbox: name a conversation with --conversation."
		}
		return errors.New("the MCP server " + CleanLine(name) + " does not work: " + text)
	}
	if _, err := fmt.Fprintf(out, "The MCP server %s works and offers %s tools.\n", CleanLine(name), thousands(int64(len(t.Tools)))); err != nil || len(t.Tools) == 0 {
		return err
	}
	rows := [][]string{{"TOOL", "DESCRIPTION"}}
	for _, tool := range t.Tools {
		rows = append(rows, []string{cut(CleanLine(tool.Name), 60), cut(CleanLine(tool.Description), 100)})
	}
	return table(out, rows)
}
