// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

const (
	// DefaultInterval is how often the world is looked at.
	DefaultInterval = 3 * time.Second

	// headerTimeout bounds how long a browser may take to ask.
	headerTimeout = 10 * time.Second
	// closeTimeout bounds how long requests may take that run when the dashboard ends.
	closeTimeout = 2 * time.Second
)

//go:embed live.js
var script string

// Server serves the dashboard of one shoot.
type Server struct {
	// Read looks at the world.
	Read func(context.Context) (Look, error)
	// Interval is how often; DefaultInterval if it is zero.
	Interval time.Duration
	// Clock is the clock.
	Clock clock.WithTicker
	// Zone is the time zone in which the page writes points in time; nil for UTC.
	Zone *time.Location
	// Flags are those by which the garden is reached, for the commands that the page shows.
	Flags []string
	// Ready is called when browsers are served.
	Ready func()

	follower Follower

	mu sync.Mutex
	// content is what the page shows, version counts its changes, changed is closed with the next one.
	content content
	version int
	changed chan struct{}
}

// content is what the page shows.
type content struct {
	// title is that of the page, problem says why the body is old.
	title, problem, body string
}

// Serve serves the dashboard at the listener until the context ends. The first look has to succeed: a shoot that does
// not exist is an error, and no page.
func (s *Server) Serve(ctx context.Context, listener net.Listener) error {
	if err := s.Look(ctx); err != nil {
		_ = listener.Close()
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	server := &http.Server{
		Handler: s.Handler(), ReadHeaderTimeout: headerTimeout,
		// Streams end with the dashboard; nothing else would end them.
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	ticker := s.Clock.NewTicker(s.interval())
	defer ticker.Stop()
	if s.Ready != nil {
		s.Ready()
	}
	for {
		select {
		case err := <-failed:
			return fmt.Errorf("failed to serve the dashboard: %w", err)
		case <-ctx.Done():
			closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
			defer cancel()
			if err := server.Shutdown(closing); err != nil && !errors.Is(err, context.DeadlineExceeded) {
				return fmt.Errorf("failed to end the dashboard: %w", err)
			}
			return nil
		case <-ticker.C():
			// The page says what is wrong.
			_ = s.Look(ctx)
		}
	}
}

func (s *Server) interval() time.Duration {
	if s.Interval == 0 {
		return DefaultInterval
	}
	return s.Interval
}

// Look looks at the world once, and shows what is seen. If it fails, what was seen before is still shown, with the
// error.
func (s *Server) Look(ctx context.Context) error {
	reading, cancel := context.WithTimeout(ctx, max(4*s.interval(), 10*time.Second))
	defer cancel()
	look, err := s.Read(reading)
	if ctx.Err() != nil {
		return nil
	}
	if err != nil {
		s.stale(err)
		return err
	}
	shown, err := render(s.follower.Observe(look), s.Flags, s.Zone)
	if err != nil {
		s.stale(err)
		return err
	}
	s.show(shown)
	return nil
}

// stale shows that what is shown is not up to date.
func (s *Server) stale(err error) {
	s.mu.Lock()
	shown := s.content
	s.mu.Unlock()
	shown.problem = renderProblem(err)
	s.show(shown)
}

func (s *Server) show(shown content) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.content = shown
	s.version++
	if s.changed != nil {
		close(s.changed)
	}
	s.changed = make(chan struct{})
}

// shown returns what is shown, its version, and what is closed with the next one.
func (s *Server) shown() (content, int, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.changed == nil {
		s.changed = make(chan struct{})
	}
	return s.content, s.version, s.changed
}

// Handler returns the handler of the pages. It answers who asks by the address at which it listens, or by localhost,
// and nobody who was led here by a name that somebody else controls. It only reads.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/{$}", s.page)
	mux.HandleFunc("/content", s.body)
	mux.HandleFunc("/events", s.events)
	mux.HandleFunc("/live.js", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/javascript; charset=utf-8")
		_, _ = io.WriteString(w, script)
	})
	return guarded(mux)
}

// guarded refuses what does not read, and what was led here by a foreign name, and lets browsers do nothing but show.
func guarded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("Content-Security-Policy", policy)
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("X-Frame-Options", "DENY")
		header.Set("Referrer-Policy", "no-referrer")
		header.Set("Cross-Origin-Resource-Policy", "same-origin")
		header.Set("Cross-Origin-Opener-Policy", "same-origin")
		header.Set("Cache-Control", "no-store")
		local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
		switch {
		case !ownHost(r.Host, local):
			http.Error(w, "This is not the address of the dashboard. Open the one that it has printed.",
				http.StatusMisdirectedRequest)
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			header.Set("Allow", "GET, HEAD")
			http.Error(w, "The dashboard only reads.", http.StatusMethodNotAllowed)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// ownHost reports whether a browser that names the host means the address at which it is answered. A page elsewhere
// whose name its owner points to this address names its own host, and would otherwise read what is here as if it were
// its own. The port does not matter: it differs behind a forwarding of ports.
func ownHost(host string, local net.Addr) bool {
	tcp, ok := local.(*net.TCPAddr)
	if !ok {
		return false
	}
	name := host
	if withoutPort, _, err := net.SplitHostPort(host); err == nil {
		name = withoutPort
	}
	name = strings.TrimSuffix(strings.TrimPrefix(name, "["), "]")
	own, valid := netip.AddrFromSlice(tcp.IP)
	if !valid {
		return false
	}
	own = own.Unmap()
	if strings.EqualFold(name, "localhost") {
		return own.IsLoopback()
	}
	named, err := netip.ParseAddr(name)
	if err != nil {
		return false
	}
	named = named.Unmap()
	return named == own || named.IsLoopback() && own.IsLoopback()
}

func (s *Server) page(w http.ResponseWriter, _ *http.Request) {
	shown, version, _ := s.shown()
	text, err := renderPage(shown, version)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = io.WriteString(w, text)
}

func (s *Server) body(w http.ResponseWriter, _ *http.Request) {
	shown, version, _ := s.shown()
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("X-Version", fmt.Sprint(version))
	_, _ = io.WriteString(w, shown.problem+shown.body)
}

// events tells the browser each change, by its version. The browser then asks for the content: one that is slow misses
// versions, and never the last one.
func (s *Server) events(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	if r.Method == http.MethodHead {
		return
	}
	stream := http.NewResponseController(w)
	for {
		shown, version, changed := s.shown()
		if _, err := fmt.Fprintf(w, "data: {\"version\":%d,\"title\":%q}\n\n", version, shown.title); err != nil {
			return
		}
		if err := stream.Flush(); err != nil {
			return
		}
		select {
		case <-r.Context().Done():
			return
		case <-changed:
		}
	}
}
