// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"fmt"
	"regexp"
	"strings"
)

// Page draws a page that is written in Markdown. Commands stay as they are, to be copied. Links become numbers; what
// they lead to is listed below the page, as lead says it for a URL.
func Page(markdown string, lead func(url string) string, o Options) string {
	p := &page{o: o, numbers: map[string]int{}}
	code := false
	for line := range strings.Lines(markdown) {
		line = strings.TrimRight(line, " \n")
		switch {
		case strings.HasPrefix(strings.TrimSpace(line), "```"):
			p.flush()
			code = !code
		case code:
			p.out.WriteString(strings.TrimRight("    "+line, " ") + "\n")
		case strings.HasPrefix(line, "<!--"):
		case line == "":
			p.flush()
			p.blank()
		case strings.HasPrefix(line, "#"):
			p.flush()
			p.out.WriteString(o.paint(bold, heading(line)) + "\n")
		case strings.HasPrefix(line, "|"):
			p.row(line)
		case listed.MatchString(line):
			p.flush()
			p.block = line
		default:
			p.block += " " + strings.TrimSpace(line)
		}
	}
	p.flush()
	for i, url := range p.links {
		if i == 0 {
			p.blank()
		}
		fmt.Fprintf(&p.out, "[%d] %s\n", i+1, lead(url))
	}
	return p.out.String()
}

// page is a page that is being drawn.
type page struct {
	o       Options
	out     strings.Builder
	block   string   // a paragraph or an item of a list, as far as it has been read
	header  []string // of the table that is being read
	links   []string
	numbers map[string]int
}

var (
	listed   = regexp.MustCompile(`^ *(?:[-*]|\d+\.) `)
	linkText = regexp.MustCompile(`\[([^\]]*)\]\(([^)\s]+)\)`)
)

// heading returns the text of a heading: those below the title in capitals, as on the other screens.
func heading(line string) string {
	text := strings.TrimLeft(line, "# ")
	if strings.HasPrefix(line, "# ") {
		return text
	}
	return strings.ToUpper(text)
}

func (p *page) blank() {
	if text := p.out.String(); text != "" && !strings.HasSuffix(text, "\n\n") {
		p.out.WriteString("\n")
	}
}

// flush writes the paragraph or the item that ends here.
func (p *page) flush() {
	p.header = nil
	if p.block == "" {
		return
	}
	block := p.block
	p.block = ""
	lead := listed.FindString(block)
	p.write(lead, strings.TrimPrefix(block, lead))
}

// write writes the text behind its lead, and the following lines below the first.
func (p *page) write(lead, text string) {
	indent := strings.Repeat(" ", len(lead))
	for i, line := range wrap(p.inline(text), p.o.width()-len(lead)) {
		if i == 0 {
			p.out.WriteString(lead + line + "\n")
			continue
		}
		p.out.WriteString(indent + line + "\n")
	}
}

// row makes an item of a row: its first cell, and below it the others with the names of their columns. With two
// columns these go without saying.
func (p *page) row(line string) {
	const bar = "\x00"
	var cells []string
	for _, cell := range strings.Split(strings.Trim(strings.ReplaceAll(line, `\|`, bar), "|"), "|") {
		cells = append(cells, strings.ReplaceAll(strings.TrimSpace(cell), bar, "|"))
	}
	switch {
	case p.header == nil:
		p.flush()
		p.header = cells
		return
	case strings.Trim(line, "|- :") == "":
		return
	}
	p.write("- ", cells[0])
	for i, cell := range cells[1:] {
		if len(cells) > 2 && i+1 < len(p.header) {
			cell = p.header[i+1] + ": " + cell
		}
		p.write("  ", cell)
	}
}

func (p *page) inline(text string) string {
	text = linkText.ReplaceAllStringFunc(text, func(found string) string {
		parts := linkText.FindStringSubmatch(found)
		number, ok := p.numbers[parts[2]]
		if !ok {
			p.links = append(p.links, parts[2])
			number = len(p.links)
			p.numbers[parts[2]] = number
		}
		return fmt.Sprintf("%s [%d]", parts[1], number)
	})
	return strings.ReplaceAll(text, "**", "")
}
