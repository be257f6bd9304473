// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package document is what the plugin shows to programs: documents with a version and a kind, as JSON, as YAML, as
// names, or through a JSONPath template.
package document

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	kjson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/util/jsonpath"
	"sigs.k8s.io/yaml"
)

// APIVersion is the version of all documents. Fields may be added to a version, not changed or removed.
const APIVersion = "cli.livecpm.gardener.cloud/v1alpha1"

// Kind is what a document is about. Programs may rely on the values.
type Kind string

// The kinds, with the commands that write them. A kind that ends with List has its elements in the field items.
const (
	// Baseline is written by verify record.
	Baseline Kind = "Baseline"
	// Change is written by each command that changes something in the garden.
	Change Kind = "Change"
	// Drain is written by drain status and drain wait, DrainPlan by drain plan.
	Drain     Kind = "Drain"
	DrainPlan Kind = "DrainPlan"
	// Dump is written by dump.
	Dump Kind = "Dump"
	// EventList is written by events, LogLineList by logs.
	EventList   Kind = "EventList"
	LogLineList Kind = "LogLineList"
	// InFlight is written by in-flight.
	InFlight Kind = "InFlight"
	// Installation is written by check.
	Installation Kind = "Installation"
	// Load is written by probe with --dry-run, LoadResult without.
	Load       Kind = "Load"
	LoadResult Kind = "LoadResult"
	// Migration is written by get and status, MigrationList by list.
	Migration     Kind = "Migration"
	MigrationList Kind = "MigrationList"
	// PastMigrationList is written by history.
	PastMigrationList Kind = "PastMigrationList"
	// Plan is written by plan.
	Plan Kind = "Plan"
	// Report is written by report.
	Report Kind = "Report"
	// Ticket is written by report with --ticket and a template.
	Ticket Kind = "Ticket"
	// TicketVerification is written by report verify.
	TicketVerification Kind = "TicketVerification"
	// Verification is written by verify.
	Verification Kind = "Verification"
	// Versions is written by version.
	Versions Kind = "Versions"
	// Word is written by explain, WordList by explain without a word.
	Word     Kind = "Word"
	WordList Kind = "WordList"
)

// Document is an answer of a command.
type Document struct {
	// Kind is what it is about.
	Kind Kind
	// Value has the fields. A slice becomes the field items.
	Value any
	// Names name what the answer is about, for -o name: as kubectl does, by kind and name.
	Names []string
}

// MarshalJSON writes apiVersion and kind before the fields of the value.
func (d Document) MarshalJSON() ([]byte, error) {
	head, err := json.Marshal(struct {
		APIVersion string `json:"apiVersion"`
		Kind       Kind   `json:"kind"`
	}{APIVersion, d.Kind})
	if err != nil {
		return nil, err
	}
	fields, err := json.Marshal(d.Value)
	if err != nil {
		return nil, err
	}
	switch {
	case bytes.Equal(fields, []byte("null")) && strings.HasSuffix(string(d.Kind), "List"):
		fields = []byte(`{"items":[]}`)
	case bytes.HasPrefix(fields, []byte("[")):
		fields = slices.Concat([]byte(`{"items":`), fields, []byte("}"))
	case !bytes.HasPrefix(fields, []byte("{")):
		return nil, fmt.Errorf("a document of kind %s cannot be made of %T", d.Kind, d.Value)
	}
	var own struct {
		APIVersion *json.RawMessage `json:"apiVersion"`
		Kind       *json.RawMessage `json:"kind"`
	}
	if err := json.Unmarshal(fields, &own); err != nil {
		return nil, err
	}
	if own.APIVersion != nil || own.Kind != nil {
		return nil, fmt.Errorf("%T has a version or a kind of its own, so no document of kind %s can be made of it",
			d.Value, d.Kind)
	}
	if bytes.Equal(fields, []byte("{}")) {
		return head, nil
	}
	return slices.Concat(head[:len(head)-1], []byte(","), fields[1:]), nil
}

// Formats that commands have in common.
const (
	Table = "table"
	Wide  = "wide"
	JSON  = "json"
	YAML  = "yaml"
	Name  = "name"
	// JSONPath is what the format begins with, followed by the template.
	JSONPath = "jsonpath="
)

// Programs are the formats for programs.
func Programs() []string { return []string{JSON, YAML, Name, JSONPath} }

// Printer writes documents in one of the formats for programs.
type Printer struct {
	format string
	path   *jsonpath.JSONPath
	// written counts documents.
	written int
}

// NewPrinter returns what writes documents in the format, or nil for a format that is for people. It returns an error
// that names the formats if it is none of them, or says what is wrong with the template.
func NewPrinter(format string, people ...string) (*Printer, error) {
	template, isPath := strings.CutPrefix(format, JSONPath)
	switch {
	case isPath:
		path := jsonpath.New("output").AllowMissingKeys(true)
		if err := path.Parse(relaxed(template)); err != nil || template == "" {
			return nil, fmt.Errorf("--output has the template %q, which is no JSONPath as in jsonpath={.state}: %w",
				template, orEmpty(err))
		}
		return &Printer{format: JSONPath, path: path}, nil
	case slices.Contains(people, format):
		return nil, nil
	case slices.Contains(Programs(), format):
		return &Printer{format: format}, nil
	}
	return nil, fmt.Errorf("--output is %q; it can be %s", format, strings.Join(append(people, Programs()...), ", "))
}

func orEmpty(err error) error {
	if err == nil {
		return errors.New("it is empty")
	}
	return err
}

// relaxed lets the braces and the first dot be left out, as kubectl does.
func relaxed(template string) string {
	if template == "" || strings.Contains(template, "{") {
		return template
	}
	return "{." + strings.TrimPrefix(template, ".") + "}"
}

// Print writes one document, in more lines than one as JSON.
func (p *Printer) Print(out io.Writer, document Document) error {
	return p.print(out, document, json.MarshalIndent)
}

// Stream writes a document that others follow: as JSON each is one line, as YAML they are separated.
func (p *Printer) Stream(out io.Writer, document Document) error {
	if p.format == YAML && p.written > 0 {
		if _, err := io.WriteString(out, "---\n"); err != nil {
			return err
		}
	}
	return p.print(out, document, func(value any, _, _ string) ([]byte, error) { return json.Marshal(value) })
}

func (p *Printer) print(
	out io.Writer, document Document, encode func(value any, prefix, indent string) ([]byte, error),
) error {
	text, err := p.text(document, encode)
	if err != nil {
		return fmt.Errorf("failed to write the %s: %w", document.Kind, err)
	}
	p.written++
	_, err = out.Write(text)
	return err
}

func (p *Printer) text(
	document Document, encode func(value any, prefix, indent string) ([]byte, error),
) ([]byte, error) {
	if p.format == Name {
		var out bytes.Buffer
		for _, name := range document.Names {
			out.WriteString(name + "\n")
		}
		return out.Bytes(), nil
	}
	data, err := encode(document, "", "  ")
	if err != nil {
		return nil, err
	}
	switch p.format {
	case JSON:
		return append(data, '\n'), nil
	case YAML:
		return yaml.JSONToYAML(data)
	}
	// With whole numbers as such, and not as 1e+06.
	var fields map[string]any
	if err := kjson.Unmarshal(data, &fields); err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if err := p.path.Execute(&out, fields); err != nil {
		return nil, err
	}
	return append(out.Bytes(), '\n'), nil
}
