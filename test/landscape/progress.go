// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package landscape

import (
	"bytes"
	"fmt"
	"io"
	"sync"
	"time"
)

// progress prints what happens, with the time since the start.
type progress struct {
	mutex sync.Mutex
	out   io.Writer
	start time.Time
}

func newProgress(out io.Writer) *progress { return &progress{out: out, start: time.Now()} }

func (p *progress) report(format string, args ...any) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	fmt.Fprintf(p.out, "%6.1fs  %s\n", time.Since(p.start).Seconds(), fmt.Sprintf(format, args...))
}

// begin announces something and returns what to call with its outcome. Until then it says every ten seconds that it is
// still awaited.
func (p *progress) begin(title string) func(error) {
	began := time.Now()
	p.report("%s", title)
	stop := make(chan struct{})
	go func() {
		ticker := time.NewTicker(10 * time.Second)
		defer ticker.Stop()
		for {
			select {
			case <-stop:
				return
			case <-ticker.C:
				p.report("… still waiting: %s (%.0f s)", title, time.Since(began).Seconds())
			}
		}
	}()
	return func(err error) {
		close(stop)
		outcome := "done"
		if err != nil {
			outcome = "FAILED"
		}
		p.report("%s: %s (%.1f s)", outcome, title, time.Since(began).Seconds())
	}
}

// lines returns a writer that reports each line.
func (p *progress) lines() io.Writer { return &lineWriter{progress: p} }

type lineWriter struct {
	progress *progress
	rest     []byte
}

func (w *lineWriter) Write(content []byte) (int, error) {
	w.rest = append(w.rest, content...)
	for {
		end := bytes.IndexByte(w.rest, '\n')
		if end < 0 {
			return len(content), nil
		}
		w.progress.report("  %s", w.rest[:end])
		w.rest = w.rest[end+1:]
	}
}
