// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package ticket

import (
	"bytes"
	"compress/zlib"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"

	"codeberg.org/go-pdf/fpdf"
)

const (
	// factsFile is the name under which a reader of PDF shows the facts among the attachments.
	factsFile = "facts.json"
	// maxFacts bounds what is unpacked of a file that somebody else has made.
	maxFacts = 4 << 20

	pdfMargin = 16.0 // millimetres
	pdfLine   = 5.0
)

// document is a PDF that is being written.
type document struct {
	*fpdf.Fpdf
	// encode writes text in the encoding of the fonts that every reader has; what they lack becomes a dot.
	encode func(string) string
}

// pdf writes the ticket for paper. The sealed facts are attached to it. The same ticket is always the same file.
func pdf(f Facts, seal Seal, sealedFacts []byte) (string, error) {
	d := document{Fpdf: fpdf.New("P", "mm", "A4", "")}
	d.encode = d.UnicodeTranslatorFromDescriptor("")
	d.SetCatalogSort(true)
	d.SetCreationDate(f.Made)
	d.SetModificationDate(f.Made)
	d.SetProducer("kubectl livecpm "+f.MadeBy, true)
	d.SetTitle(fmt.Sprintf("Live migration of %s/%s: %s", f.Shoot.Namespace, f.Shoot.Name, f.Result), true)
	d.SetLang("en")
	d.SetAttachments([]fpdf.Attachment{{Content: sealedFacts, Filename: factsFile}})
	d.SetMargins(pdfMargin, pdfMargin, pdfMargin)
	d.SetAutoPageBreak(true, pdfMargin+pdfLine)
	d.AliasNbPages("{pages}")
	d.SetFooterFunc(func() {
		d.SetY(-pdfMargin)
		d.SetFont("Helvetica", "", 7.5)
		d.SetTextColor(90, 100, 116)
		d.CellFormat(0, pdfLine, fmt.Sprintf("SHA-256 of the facts: %s   page %d of {pages}", seal.SHA256, d.PageNo()),
			"", 0, "L", false, 0, "")
	})
	d.AddPage()
	d.heading(17, fmt.Sprintf("Live migration of %s/%s: %s", f.Shoot.Namespace, f.Shoot.Name, f.Result))
	d.paragraph(fmt.Sprintf("Collected %s by kubectl livecpm %s.", moment(&f.Made), f.MadeBy))
	for _, t := range tables(f) {
		d.table(t)
	}
	if len(f.Unknown) > 0 {
		d.heading(12, "Not known")
		for _, unknown := range f.Unknown {
			d.paragraph("- " + unknown.What + ": " + unknown.Why)
		}
	}
	d.heading(12, "Facts for programs")
	d.paragraph("They are attached to this file as " + factsFile +
		". Verify it with kubectl livecpm report verify FILE.")
	d.paragraph("SHA-256: " + seal.SHA256)
	if seal.Signature == "" {
		d.paragraph("The facts are not signed: the digest reports whether they were damaged, and not who has written " +
			"them.")
	} else {
		d.paragraph("Signature (Ed25519): " + seal.Signature)
		d.paragraph("SHA-256 of the public key: " + seal.Key)
	}
	var out bytes.Buffer
	if err := d.Output(&out); err != nil {
		return "", fmt.Errorf("failed to write the ticket as PDF: %w", err)
	}
	return out.String(), nil
}

func (d document) heading(size float64, text string) {
	d.Ln(3)
	d.SetFont("Helvetica", "B", size)
	d.SetTextColor(28, 35, 48)
	d.MultiCell(0, size/2, d.encode(text), "", "L", false)
	d.Ln(1)
}

func (d document) paragraph(text string) {
	d.SetFont("Helvetica", "", 9)
	d.SetTextColor(28, 35, 48)
	d.MultiCell(0, pdfLine-0.5, d.encode(text), "", "L", false)
}

// pdfWidths are the parts of the page that the columns of a table have, by how many they are.
var pdfWidths = map[int][]float64{2: {0.32, 0.68}, 3: {0.34, 0.38, 0.28}, 4: {0.06, 0.5, 0.18, 0.26}}

// table writes a table. A row that has no room any more begins on the next page.
func (d document) table(t table) {
	width, height := d.GetPageSize()
	if d.GetY() > height-pdfMargin-8*pdfLine {
		d.AddPage() // No title stands alone at the end of a page.
	}
	d.heading(12, t.Title)
	d.SetDrawColor(213, 218, 226)
	rows := append([][]string{t.Header}, t.Rows...)
	for i, row := range rows {
		var cells [][][]byte
		lines := 1
		d.SetFont("Helvetica", map[bool]string{true: "B", false: ""}[i == 0 || t.Bad[i-1]], 9)
		for j, text := range row {
			part := pdfWidths[len(t.Header)][j] * (width - 2*pdfMargin)
			cells = append(cells, d.SplitLines([]byte(d.encode(text)), part-1))
			lines = max(lines, len(cells[j]))
		}
		if d.GetY()+float64(lines)*pdfLine > height-pdfMargin-pdfLine {
			d.AddPage()
			d.SetFont("Helvetica", "", 9)
		}
		x, y := pdfMargin, d.GetY()
		for j, cell := range cells {
			d.color(t, i-1, row[j])
			for k, line := range cell {
				d.SetXY(x, y+float64(k)*pdfLine)
				d.CellFormat(0, pdfLine, string(line), "", 0, "L", false, 0, "")
			}
			x += pdfWidths[len(t.Header)][j] * (width - 2*pdfMargin)
		}
		d.SetXY(pdfMargin, y+float64(lines)*pdfLine)
		d.Line(pdfMargin, d.GetY(), width-pdfMargin, d.GetY())
	}
}

// color sets the colour of a text in a row of a table, of which -1 is the header.
func (d document) color(t table, row int, text string) {
	switch {
	case row < 0 || text == notKnown:
		d.SetTextColor(90, 100, 116)
	case t.Bad[row]:
		d.SetTextColor(194, 47, 61)
	default:
		d.SetTextColor(28, 35, 48)
	}
}

// attached is an attachment as fpdf writes it.
var attached = regexp.MustCompile(`/Type /EmbeddedFile /Length (\d+) /Filter /FlateDecode [^\n]*\n+stream\n`)

// attachedFacts returns what is attached to a PDF that this plugin has written.
func attachedFacts(file string) ([]byte, error) {
	found := attached.FindAllStringSubmatchIndex(file, -1)
	if len(found) != 1 {
		return nil, errors.New("this is no report for a change ticket: no facts are attached to it, or more than once")
	}
	length, err := strconv.Atoi(file[found[0][2]:found[0][3]])
	begin := found[0][1]
	if err != nil || length < 0 || begin+length > len(file) {
		return nil, errors.New("the file is damaged: its attachment is longer than the file")
	}
	reader, err := zlib.NewReader(bytes.NewReader([]byte(file[begin : begin+length])))
	if err != nil {
		return nil, fmt.Errorf("failed to unpack the facts: %w", err)
	}
	defer reader.Close()
	out, err := io.ReadAll(io.LimitReader(reader, maxFacts+1))
	if err != nil {
		return nil, fmt.Errorf("failed to unpack the facts: %w", err)
	}
	if len(out) > maxFacts {
		return nil, fmt.Errorf("the facts are longer than %d bytes", maxFacts)
	}
	return out, nil
}
