package anthropic

import "parley/internal/llm"

// Encode renders a request as a first call would send it.
func (m *Model) Encode(req *llm.Request) ([]byte, error) {
	body, _, err := m.encode(req, attempt{refused: refusals(m.refused.Load())})
	return body, err
}

// Source is what the blocks of m's answers are marked with.
func (m *Model) Source() string { return m.source }
