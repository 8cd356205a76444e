package mcp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"parley/internal/fault"
)

// Kinds of what goes wrong with a server (agent protocol 1.7).
const (
	kindTimeout    = "timeout"
	kindConnection = "connection"
	kindUnknown    = "unknown"
)

// rpcError is what a server answered instead of a result. The SDK wraps its own troubles
// in errors of the same type, with codes that are nobody's.
func rpcError(err error) (*jsonrpc.Error, bool) {
	var rpc *jsonrpc.Error
	if !errors.As(err, &rpc) || rpc.Code <= -32001 && rpc.Code >= -32006 {
		return nil, false
	}
	return rpc, true
}

// describe says what is wrong with a server, for people, and of which kind it is. It
// holds nothing of the server's address or credentials.
func describe(err error) (text, kind string) {
	var (
		f       *fault.Error
		end     *programEnd
		refused *refusal
		other   *otherHost
		network net.Error
	)
	rpc, isRPC := rpcError(err)
	switch {
	case errors.Is(err, errLogin):
		return "It wants its user to log in.", kindConnection
	case errors.As(err, &f):
		text, kind = fault.PublicText(f), kindConnection
		if f.Kind == fault.Timeout {
			kind = kindTimeout
		} else if f.Code == codeConfig || f.Code == codeSecret {
			kind = kindUnknown
		}
		return text, kind
	case errors.As(err, &end):
		return end.text, kindConnection
	case errors.As(err, &refused):
		return sentence(refused.Error()), kindConnection
	case errors.As(err, &other):
		return sentence(other.Error()), kindConnection
	case isRPC:
		return fmt.Sprintf("It refuses: %s (code %d).", oneLine(rpc.Message, 300), rpc.Code), kindUnknown
	case errors.Is(err, context.DeadlineExceeded):
		return "It did not answer in time.", kindTimeout
	case errors.As(err, &network):
		return "It cannot be reached: " + oneLine(plainError(err).Error(), 200) + ".", kindConnection
	case errors.Is(err, errFlood), errors.Is(err, errManyPost):
		return sentence(err.Error()), kindConnection
	}
	return "It does not speak MCP: " + oneLine(withoutSteps(plainError(err).Error()), 300) + ".", kindUnknown
}

// withoutSteps drops the names of the SDK's layers in front of what happened.
func withoutSteps(text string) string {
	for _, step := range []string{`calling "initialize": `, `sending "initialize": `, "client is closing: ", "rejected by transport: "} {
		text = strings.ReplaceAll(text, step, "")
	}
	return text
}
