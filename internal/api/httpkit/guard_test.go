package httpkit_test

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"parley/internal/api/httpkit"
)

// behindGuard serves a document behind a guard, as every API is.
func behindGuard(t *testing.T, change func(*httpkit.GuardConfig), handlers httpkit.Handlers, encode httpkit.ErrorEncoder) http.Handler {
	t.Helper()
	api, err := httpkit.NewAPI(httpkit.APIConfig{Name: "x", Encode: encode, Handlers: handlers, Document: []byte(`
openapi: 3.1.0
paths:
  /x: {get: {operationId: x, security: [], responses: {}}}
`)})
	if err != nil {
		t.Fatal(err)
	}
	mux, err := httpkit.NewMux(api)
	if err != nil {
		t.Fatal(err)
	}
	cfg := httpkit.GuardConfig{Log: slog.New(slog.DiscardHandler), Metrics: httpkit.NewMetrics(func() int { return 0 }), URLs: &httpkit.URLs{},
		Auth: &httpkit.Authenticator{}, Listen: "127.0.0.1:0"}
	if change != nil {
		change(&cfg)
	}
	return httpkit.NewGuard(cfg).Wrap(mux)
}

func ask(h http.Handler, method string, header http.Header) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, "http://localhost/x", nil)
	r.Header = header
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestPanicsAnswerInTheShapeOfTheOperation(t *testing.T) {
	t.Parallel()
	h := behindGuard(t, nil, httpkit.Handlers{"x": func(http.ResponseWriter, *httpkit.Request) error { panic("defect") }},
		func(*http.Request, *httpkit.Problem) (int, any) {
			return 500, httpkit.PlainText("Internal Server Error")
		})
	w := ask(h, "GET", http.Header{})
	if w.Code != 500 || w.Body.String() != "Internal Server Error" || w.Header().Get("Content-Type") != "text/plain; charset=utf-8" {
		t.Errorf("%d %s %v", w.Code, w.Body, w.Header())
	}
}

func TestTooManyRequestsAreRefusedWithCORS(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := behindGuard(t, func(c *httpkit.GuardConfig) { c.Rate = httpkit.NewRateLimit(1) }, httpkit.Handlers{
			"x": func(w http.ResponseWriter, _ *httpkit.Request) error { _, err := io.WriteString(w, "{}"); return err }}, nil)
		header := http.Header{"Origin": {"http://localhost:5173"}}
		if w := ask(h, "GET", header); w.Code != 200 {
			t.Errorf("the first: %d", w.Code)
		}
		late := make(chan int, 1)
		go func() { late <- ask(h, "GET", header).Code }()
		synctest.Wait()
		w := ask(h, "GET", header)
		if w.Code != 429 || strings.TrimSpace(w.Body.String()) != `{"message":"Too many requests"}` || w.Header().Get("Retry-After") != "1" ||
			w.Header().Get("Access-Control-Allow-Origin") != "http://localhost:5173" || !strings.Contains(w.Header().Get("Access-Control-Expose-Headers"), "Retry-After") {
			t.Errorf("%d %s %v", w.Code, w.Body, w.Header())
		}
		if code := <-late; code != 200 {
			t.Errorf("the second, which waited: %d", code)
		}
	})
}

func TestPreflights(t *testing.T) {
	t.Parallel()
	h := behindGuard(t, nil, httpkit.Handlers{"x": func(http.ResponseWriter, *httpkit.Request) error { return nil }}, nil)
	pre := func(origin, headers string) *httptest.ResponseRecorder {
		return ask(h, "OPTIONS", http.Header{"Origin": {origin}, "Access-Control-Request-Method": {"PATCH"}, "Access-Control-Request-Headers": {headers}})
	}
	w := pre("http://127.0.0.1:5173", "x-own-header, x-session-api-key")
	if w.Code != 200 || w.Body.String() != "OK" {
		t.Errorf("%d %q", w.Code, w.Body)
	}
	for name, want := range map[string]string{"Access-Control-Allow-Origin": "http://127.0.0.1:5173", "Access-Control-Allow-Credentials": "true", "Vary": "Origin",
		"Access-Control-Allow-Methods": "DELETE, GET, HEAD, OPTIONS, PATCH, POST, PUT", "Access-Control-Max-Age": "600", "Content-Type": "text/plain; charset=utf-8"} {
		if got := w.Header().Get(name); got != want {
			t.Errorf("%s: %q", name, got)
		}
	}
	if got := w.Header().Get("Access-Control-Allow-Headers"); !strings.HasSuffix(got, ", x-own-header, x-session-api-key") {
		t.Errorf("headers %q", got)
	}
	if got := pre("http://127.0.0.1", "x<script>").Header().Get("Access-Control-Allow-Headers"); strings.Contains(got, "<") {
		t.Errorf("headers %q", got)
	}
	if w := pre("https://evil.example.com", ""); w.Code != 400 || w.Body.String() != "Disallowed CORS origin" {
		t.Errorf("%d %q", w.Code, w.Body)
	}
}

func TestAnswersAreNotCached(t *testing.T) {
	t.Parallel()
	h := behindGuard(t, nil, httpkit.Handlers{"x": func(w http.ResponseWriter, _ *httpkit.Request) error { return nil }}, nil)
	w := ask(h, "GET", http.Header{})
	for name, want := range map[string]string{"Cache-Control": "no-cache, no-store, must-revalidate, max-age=0", "Pragma": "no-cache", "Expires": "0"} {
		if got := w.Header().Get(name); got != want {
			t.Errorf("%s: %q", name, got)
		}
	}
}
