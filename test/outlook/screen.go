// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package outlook

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"

	"github.com/livecpm/livecpm/pkg/cli/view"
)

const (
	defaultWidth = 100
	narrowest    = 60
)

// Screen prints lines that stay and, on a terminal, a block below them that is drawn again and again.
type Screen struct {
	out      io.Writer
	terminal bool
	width    func() int

	mu    sync.Mutex
	drawn int
}

// NewScreen returns a screen on out. It draws blocks if out is a terminal.
func NewScreen(out io.Writer) *Screen {
	if file, ok := out.(*os.File); ok && term.IsTerminal(int(file.Fd())) {
		return &Screen{out: out, terminal: true, width: func() int {
			width, _, err := term.GetSize(int(file.Fd()))
			if err != nil || width <= 0 {
				return defaultWidth
			}
			return max(width, narrowest)
		}}
	}
	return NewPlainScreen(out)
}

// NewPlainScreen returns a screen that prints lines only.
func NewPlainScreen(out io.Writer) *Screen {
	return &Screen{out: out, width: func() int { return defaultWidth }}
}

// NewTerminalScreen returns a screen that draws blocks of so many columns, whatever out is.
func NewTerminalScreen(out io.Writer, width int) *Screen {
	return &Screen{out: out, terminal: true, width: func() int { return max(width, narrowest) }}
}

// Terminal reports whether blocks are drawn.
func (s *Screen) Terminal() bool { return s.terminal }

// Width is the number of columns.
func (s *Screen) Width() int { return s.width() }

// Line prints a line that stays.
func (s *Screen) Line(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.erase()
	_, _ = fmt.Fprintf(s.out, format+"\n", args...)
}

// Block draws lines in place of the block that was drawn before. It does nothing where blocks cannot be drawn.
func (s *Screen) Block(lines ...string) {
	if !s.terminal {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.erase()
	width := s.width()
	for _, line := range lines {
		_, _ = fmt.Fprintln(s.out, view.Cut(line, width-1))
		s.drawn++
	}
}

// Clear removes the block.
func (s *Screen) Clear() { s.Block() }

func (s *Screen) erase() {
	if s.drawn > 0 {
		_, _ = fmt.Fprintf(s.out, "\x1b[%dA\x1b[J", s.drawn)
	}
	s.drawn = 0
}

// Bar draws how much is done, from 0 to 1, in so many columns.
func Bar(share float64, width int) string {
	share = min(1, max(0, share))
	full := int(share * float64(width))
	return strings.Repeat("█", full) + strings.Repeat("░", width-full)
}

// Minutes is a duration as one says it of something that is yet to come.
func Minutes(d time.Duration) string {
	switch {
	case d < 10*time.Second:
		return "a few seconds"
	case d < 50*time.Second:
		return fmt.Sprintf("%d s", (int(d.Seconds())+5)/10*10)
	default:
		return fmt.Sprintf("%d min", int((d+30*time.Second)/time.Minute))
	}
}

// Status is one line about a run: how much is done, how long it still takes, what runs. The bar has so many
// columns, and none if width is 0.
func (t *Tracker) Status(width int) string {
	share := t.Share()
	text := fmt.Sprintf("%2d %%  %s left", int(share*100), Minutes(t.Left()))
	if width > 0 {
		text = Bar(share, width) + "  " + text
	}
	if running := t.Running(); len(running) > 0 {
		text += ": " + strings.Join(running, ", ")
	}
	return text
}

const (
	// barWidth is that of the bar of a status line.
	barWidth = 24
	// drawEvery and sayEvery are how often a status is drawn on a terminal, and printed elsewhere.
	drawEvery = time.Second
	sayEvery  = 30 * time.Second
)

// Show draws the status of the tracker until the returned function is called: at the bottom of a terminal, and now and
// then as a line elsewhere.
func Show(screen *Screen, tracker *Tracker) (stop func()) {
	done, gone := make(chan struct{}), make(chan struct{})
	every := sayEvery
	if screen.Terminal() {
		every = drawEvery
	}
	go func() {
		defer close(gone)
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		for {
			select {
			case <-done:
				screen.Clear()
				return
			case <-ticker.C:
			}
			if screen.Terminal() {
				screen.Block(tracker.Status(barWidth))
			} else {
				screen.Line("%6.1fs  … %s", tracker.Elapsed().Seconds(), tracker.Status(0))
			}
		}
	}()
	var once sync.Once
	return func() {
		once.Do(func() { close(done) })
		<-gone
	}
}
