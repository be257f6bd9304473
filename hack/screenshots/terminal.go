// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package screenshots

import (
	"fmt"
	"html"
	"path/filepath"
	"regexp"
	"strings"
	"unicode/utf8"
)

// TerminalPicture is a picture of a screen.
type TerminalPicture struct {
	// Name is that of the file in docs/images.
	Name string
	// Screen is what it is drawn of, below the root of the repository: a golden screen of the plugin, or what a
	// terminal has shown on the landscape.
	Screen string
}

// TerminalPictures are all pictures of screens.
func TerminalPictures() []TerminalPicture {
	golden := filepath.Join("pkg", "cli", "screen", "testdata", "golden")
	recorded := filepath.Join("docs", "usage", "recorded", "walkthrough")
	return []TerminalPicture{
		{"screen-steps.svg", filepath.Join(golden, "steps-waiting-color.txt")},
		{"screen-etcd.svg", filepath.Join(golden, "etcd-color.txt")},
		{"screen-abort.svg", filepath.Join(golden, "ask-abort-color.txt")},
		{"screen-fleet.svg", filepath.Join(golden, "fleet-color.txt")},
		{"walkthrough-start.svg", filepath.Join(recorded, "start.ansi")},
		{"walkthrough-silent.svg", filepath.Join(recorded, "silent.ansi")},
		{"walkthrough-paused.svg", filepath.Join(recorded, "paused.ansi")},
		{"walkthrough-etcd.svg", filepath.Join(recorded, "etcd.ansi")},
		{"walkthrough-abort.svg", filepath.Join(recorded, "abort-question.ansi")},
	}
}

// The terminal of a picture.
const (
	// cell is the size of a character, in units of the picture, and ascent how far above its lower end it stands.
	cellWidth, cellHeight, ascent = 8.4, 18.0, 13.5
	margin                        = 14.0

	ground, ink = "#14181f", "#e4e8ef"
)

// inks are the colours of SGR that the plugin uses.
var inks = map[string]string{"31": "#f27a84", "32": "#4cc38a", "33": "#e3b341", "36": "#5bc8d8"}

// escape is a sequence that sets how what follows looks (ECMA-48, SGR).
var escape = regexp.MustCompile("\x1b\\[([0-9;]*)m")

// look is how characters look.
type look struct {
	ink                   string
	bold, faint, reversed bool
}

// set returns the look after a sequence.
func (l look) set(parameters string) (look, error) {
	for _, p := range strings.Split(parameters, ";") {
		switch p {
		case "", "0":
			l = look{}
		case "1":
			l.bold = true
		case "2":
			l.faint = true
		case "7":
			l.reversed = true
		case "39": // the default colour: terminals end a colour so when they tell what they show
			l.ink = ""
		case "49": // the default ground, of which there is only one
		default:
			color, known := inks[p]
			if !known {
				return l, fmt.Errorf("nothing is known of SGR parameter %q", p)
			}
			l.ink = color
		}
	}
	return l, nil
}

// attributes are those of the look for text in SVG.
func (l look) attributes() string {
	color := ink
	if l.ink != "" {
		color = l.ink
	}
	if l.reversed {
		color = ground
	}
	out := fmt.Sprintf(` fill="%s"`, color)
	if l.bold {
		out += ` font-weight="bold"`
	}
	if l.faint {
		out += ` opacity="0.6"`
	}
	return out
}

// Terminal draws what a terminal shows as SVG: text with sequences for bold, faint, reversed and coloured characters.
// Any other sequence is an error.
func Terminal(text string) (string, error) {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	columns := 0
	for _, line := range lines {
		columns = max(columns, utf8.RuneCountInString(escape.ReplaceAllString(line, "")))
	}
	width, height := 2*margin+float64(columns)*cellWidth, 2*margin+float64(len(lines))*cellHeight
	var out strings.Builder
	fmt.Fprintf(&out, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.1f %.1f" width="%.0f" role="img">`+"\n",
		width, height, width)
	fmt.Fprintf(&out, `<rect width="100%%" height="100%%" rx="8" fill="%s"/>`+"\n", ground)
	out.WriteString(`<g font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace" ` +
		`font-size="14">` + "\n")
	var now look
	for i, line := range lines {
		var err error
		if now, err = drawLine(&out, now, line, margin+float64(i)*cellHeight); err != nil {
			return "", fmt.Errorf("failed to draw line %d: %w", i+1, err)
		}
	}
	out.WriteString("</g>\n</svg>\n")
	return out.String(), nil
}

// drawLine draws a line whose upper end is at top, and returns the look that it ends with.
func drawLine(out *strings.Builder, now look, line string, top float64) (look, error) {
	column := 0
	for line != "" {
		text := line
		at := escape.FindStringSubmatchIndex(line)
		if at != nil {
			text = line[:at[0]]
		}
		if strings.ContainsRune(text, '\x1b') {
			return now, fmt.Errorf("%q has a sequence that is no SGR", text)
		}
		if n := utf8.RuneCountInString(text); n > 0 {
			drawText(out, now, text, place{margin + float64(column)*cellWidth, top})
			column += n
		}
		if at == nil {
			break
		}
		var err error
		if now, err = now.set(line[at[2]:at[3]]); err != nil {
			return now, err
		}
		line = line[at[1]:]
	}
	return now, nil
}

// place is the upper left corner of a character.
type place struct{ x, y float64 }

func drawText(out *strings.Builder, now look, text string, at place) {
	width := float64(utf8.RuneCountInString(text)) * cellWidth
	if now.reversed {
		fmt.Fprintf(out, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s"/>`+"\n", at.x, at.y, width,
			cellHeight, ink)
	}
	if strings.TrimSpace(text) == "" {
		return
	}
	// Fonts differ in width, and not all of them have all characters. Ordinary spaces in a row would become one.
	text = strings.ReplaceAll(text, " ", "\u00a0")
	fmt.Fprintf(out, `<text x="%.1f" y="%.1f" textLength="%.1f" lengthAdjust="spacingAndGlyphs"%s>%s</text>`+"\n", at.x,
		at.y+ascent, width, now.attributes(), html.EscapeString(text))
}
