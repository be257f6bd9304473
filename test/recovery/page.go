// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package recovery destroys the quorum of a shoot's etcd in the middle of a live migration and brings it back by the
// commands of docs/operations/recovery.md, taken from the page itself.
package recovery

import (
	"fmt"
	"strings"
)

// Block is a block of shell commands of a page.
type Block struct {
	// Section is the heading that the block is below, without its signs.
	Section string
	// Line is the line of the page that the block begins with, from 1.
	Line int
	// Script are the commands.
	Script string
}

// Page is a page of the documentation.
type Page struct {
	// Name is the path of the page below the repository.
	Name   string
	Blocks []Block
}

// ParsePage finds the blocks of shell commands.
func ParsePage(name, content string) *Page {
	page := &Page{Name: name}
	var (
		section string
		block   *Block
		fence   bool
	)
	for i, line := range strings.Split(content, "\n") {
		switch {
		case strings.HasPrefix(line, "```"):
			switch {
			case block != nil:
				page.Blocks = append(page.Blocks, *block)
				block, fence = nil, false
			case fence:
				fence = false
			default:
				fence = true
				if strings.TrimPrefix(line, "```") == "sh" {
					block = &Block{Section: section, Line: i + 2}
				}
			}
		case block != nil:
			block.Script += line + "\n"
		case !fence && strings.HasPrefix(line, "#"):
			section = strings.TrimSpace(strings.TrimLeft(line, "#"))
		}
	}
	return page
}

// Block returns the block of the section that begins with the text; n counts the blocks of the section from 0.
func (p *Page) Block(section string, n int) (Block, error) {
	count := 0
	for _, block := range p.Blocks {
		if !strings.HasPrefix(block.Section, section) {
			continue
		}
		if count == n {
			return block, nil
		}
		count++
	}
	return Block{}, fmt.Errorf("%s has %d blocks of commands in the section %q, number %d was looked for: adapt "+
		"test/recovery to the page", p.Name, count, section, n+1)
}

// Replace returns the block with the old text replaced. What an operator has to fill in must be there, once at least.
func (b Block) Replace(old, text string) (Block, error) {
	if !strings.Contains(b.Script, old) {
		return b, fmt.Errorf("the commands of section %q do not hold %q: adapt test/recovery to the page", b.Section,
			old)
	}
	b.Script = strings.ReplaceAll(b.Script, old, text)
	return b, nil
}

// line returns the block with just the line that holds the text, which must be one.
func (b Block) line(text string) (Block, error) {
	var found []string
	for line := range strings.Lines(b.Script) {
		if strings.Contains(line, text) {
			found = append(found, line)
		}
	}
	if len(found) != 1 {
		return b, fmt.Errorf("the commands of section %q have %d lines with %q, not one: adapt test/recovery to the "+
			"page", b.Section, len(found), text)
	}
	b.Script = found[0]
	return b, nil
}
