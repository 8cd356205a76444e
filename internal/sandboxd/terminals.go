package sandboxd

import (
	"net/http"
	"sync"
	"syscall"
	"time"

	"parley/internal/fault"
	"parley/internal/tool"
)

// terminals are the daemon's terminals by id, those whose program has ended
// included, so that their last output can be read.
type terminals struct {
	children *children
	launch   launcher
	opt      Options

	mu     sync.Mutex
	byID   map[string]*terminal
	order  []string // ids, oldest first
	closed bool
}

func newTerminals(kids *children, launch launcher, opt Options) *terminals {
	return &terminals{children: kids, launch: launch, opt: opt, byID: map[string]*terminal{}}
}

func (s *terminals) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.byID)
}

func (s *terminals) get(id string) (*terminal, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.byID[id]; t != nil {
		return t, nil
	}
	return nil, fault.New(fault.NotFound, CodeTerminalNotFound, "There is no terminal %q in the sandbox.", id).
		WithHint("Open it first. A restart of the sandbox ends all terminals.")
}

// open returns the running terminal of that id or starts one, in place of an
// ended one if need be.
func (s *terminals) open(req tool.TerminalRequest) (tool.TerminalInfo, error) {
	info, old, err := s.openLocked(req)
	if old != nil {
		old.release()
	}
	return info, err
}

func (s *terminals) openLocked(req tool.TerminalRequest) (info tool.TerminalInfo, old *terminal, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return info, nil, errStopping()
	}
	if t := s.byID[req.ID]; t != nil && !t.hasExited() {
		return t.info(false), nil, nil
	}
	victim, err := s.victimLocked(req.ID)
	if err != nil {
		return info, nil, err
	}
	t, err := startTerminal(s.children, s.launch, s.opt, req)
	if err != nil {
		return info, nil, err
	}
	if victim != "" {
		old = s.removeLocked(victim)
	}
	s.byID[req.ID] = t
	s.order = append(s.order, req.ID)
	return t.info(true), old, nil
}

// victimLocked names the terminal that must go for a new one of that id: its
// namesake, or the one that ended first if there are too many; "" if none must.
func (s *terminals) victimLocked(id string) (string, error) {
	if s.byID[id] != nil {
		return id, nil
	}
	if len(s.byID) < s.opt.MaxTerminals {
		return "", nil
	}
	for _, candidate := range s.order {
		if s.byID[candidate].hasExited() {
			return candidate, nil
		}
	}
	return "", fault.New(fault.TooLarge, CodeTerminalLimit, "%d terminals are open in the sandbox, which is the limit.", s.opt.MaxTerminals).
		WithHint("Close one that is not needed.")
}

func (s *terminals) removeLocked(id string) *terminal {
	t := s.byID[id]
	if t == nil {
		return nil
	}
	delete(s.byID, id)
	for i, candidate := range s.order {
		if candidate == id {
			s.order = append(s.order[:i], s.order[i+1:]...)
			break
		}
	}
	return t
}

func (s *terminals) close(id string) {
	s.mu.Lock()
	t := s.removeLocked(id)
	s.mu.Unlock()
	if t != nil {
		t.close()
	}
}

// closeAll closes all terminals and refuses new ones.
func (s *terminals) closeAll() {
	s.mu.Lock()
	all := s.byID
	s.byID, s.order, s.closed = map[string]*terminal{}, nil, true
	s.mu.Unlock()
	var closing sync.WaitGroup
	for _, t := range all {
		closing.Go(t.close)
	}
	closing.Wait()
}

func (d *daemon) openTerminal(w http.ResponseWriter, r *http.Request) error {
	body, err := readBody(w, r, maxOpenBody)
	if err != nil {
		return err
	}
	req, err := decodeOpen(body, r.PathValue("id"))
	if err != nil {
		return err
	}
	info, err := d.terminals.open(req)
	if err != nil {
		return err
	}
	return writeJSON(w, info)
}

func decodeOpen(body []byte, id string) (tool.TerminalRequest, error) {
	var req tool.TerminalRequest
	if err := decodeJSON(body, &req); err != nil {
		return req, err
	}
	req.ID = id
	return req, checkTerminalID(id)
}

func (d *daemon) writeTerminal(w http.ResponseWriter, r *http.Request) error {
	t, err := d.terminals.get(r.PathValue("id"))
	if err != nil {
		return err
	}
	data, err := readBody(w, r, MaxInputBytes)
	if err != nil {
		return err
	}
	if err := t.write(r.Context(), data); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (d *daemon) readTerminal(w http.ResponseWriter, r *http.Request) error {
	req, err := decodeRead(r.URL.RawQuery)
	if err != nil {
		return err
	}
	t, err := d.terminals.get(r.PathValue("id"))
	if err != nil {
		return err
	}
	out, err := t.follow(r.Context(), req)
	if err != nil {
		return err
	}
	setHeaders(w.Header(), out)
	writeRaw(w, out.Data)
	return nil
}

func decodeRead(raw string) (tool.TerminalRead, error) {
	q := parseQuery(raw)
	req := tool.TerminalRead{
		Offset: q.number("offset", 0, 1<<62),
		Wait:   clampWait(time.Duration(q.number("wait", 0, 1<<62))),
		Max:    int(min(q.number("max", 1, 1<<30), maxTerminalRead)),
		Until:  q.values.Get("until"),
		Hold:   q.flag("hold"),
	}
	if req.Max == 0 {
		req.Max = defaultTerminalRead
	}
	if q.err == nil && len(req.Until) > maxUntil {
		q.err = invalid("until must not be longer than %d bytes.", maxUntil)
	}
	return req, q.err
}

func (d *daemon) signalTerminal(w http.ResponseWriter, r *http.Request) error {
	q := parseQuery(r.URL.RawQuery)
	sig := q.number("signal", 1, 64)
	if q.err == nil && sig == 0 {
		q.err = invalid("signal must be a number from 1 to 64.")
	}
	if q.err != nil {
		return q.err
	}
	t, err := d.terminals.get(r.PathValue("id"))
	if err != nil {
		return err
	}
	if err := t.signal(syscall.Signal(sig)); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (d *daemon) resizeTerminal(w http.ResponseWriter, r *http.Request) error {
	q := parseQuery(r.URL.RawQuery)
	rows, cols := q.number("rows", 1, 0xffff), q.number("cols", 1, 0xffff)
	if q.err == nil && (rows == 0 || cols == 0) {
		q.err = invalid("rows and cols must be numbers from 1 to 65535.")
	}
	if q.err != nil {
		return q.err
	}
	t, err := d.terminals.get(r.PathValue("id"))
	if err != nil {
		return err
	}
	if err := t.resize(uint16(rows), uint16(cols)); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (d *daemon) closeTerminal(w http.ResponseWriter, r *http.Request) error {
	d.terminals.close(r.PathValue("id"))
	w.WriteHeader(http.StatusNoContent)
	return nil
}
