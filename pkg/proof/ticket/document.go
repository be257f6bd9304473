// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package ticket

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"regexp"
	"strings"

	"sigs.k8s.io/yaml"
)

// Format is how a ticket is written.
type Format string

// The formats.
const (
	HTML     Format = "html"
	Markdown Format = "md"
	PDF      Format = "pdf"
	JSON     Format = "json"
	YAML     Format = "yaml"
)

// sealed is a ticket as JSON.
type sealed struct {
	Facts json.RawMessage `json:"facts"`
	Seal
}

// Write returns the ticket. The same facts and seal are always the same file.
func Write(facts Facts, seal Seal, format Format) (string, error) {
	content, err := facts.Canonical()
	if err != nil {
		return "", err
	}
	switch format {
	case HTML:
		return page(facts, seal, content)
	case Markdown:
		return text(facts, seal, content), nil
	case PDF, JSON, YAML:
		var out bytes.Buffer
		encoder := json.NewEncoder(&out)
		encoder.SetEscapeHTML(false)
		if err := encoder.Encode(sealed{Facts: content, Seal: seal}); err != nil {
			return "", fmt.Errorf("failed to encode the ticket: %w", err)
		}
		switch format {
		case JSON:
			return out.String(), nil
		case YAML:
			converted, err := yaml.JSONToYAML(out.Bytes())
			return string(converted), err
		}
		return pdf(facts, seal, out.Bytes())
	}
	return "", fmt.Errorf("there is no format %q", format)
}

// Verified is what a verification has found.
type Verified struct {
	// Facts are the facts in the file, Seal is what is over them.
	Facts Facts `json:"facts"`
	Seal  Seal  `json:"seal"`
	// Signed reports that the signature was checked, with a key that was given.
	Signed bool `json:"signed"`
	// Text says why what people read in the file may say something else than the facts; empty if it does not.
	Text string `json:"text,omitempty"`
}

// Verify reads a ticket and checks digest and signature. It also writes the file again from its facts, which tells
// whether somebody has changed what people read. Without a public key, a signature is not checked; with one, a file
// that is not signed is an error. The release is that of this plugin.
func Verify(file []byte, public ed25519.PublicKey, release string) (Verified, error) {
	var out Verified
	format, content, seal, err := read(string(file))
	if err != nil {
		return out, err
	}
	out.Seal = seal
	if err := seal.check(content, public); err != nil {
		return out, err
	}
	if out.Facts, err = parse(content); err != nil {
		return out, err
	}
	out.Signed = public != nil
	again, err := Write(out.Facts, seal, format)
	switch {
	case err != nil:
		return out, err
	case again == string(file):
	case out.Facts.MadeBy != release:
		out.Text = fmt.Sprintf("the plugin %s has made the file, and this one, %s, writes it otherwise: verify it "+
			"with that release, or read the facts alone", out.Facts.MadeBy, release)
	default:
		out.Text = "what people read in the file was changed: it is not what the facts say"
	}
	return out, nil
}

var (
	htmlFacts     = regexp.MustCompile(`(?s)<pre id="facts">(.*?)</pre>`)
	markdownFacts = regexp.MustCompile("(?m)^```json livecpm-facts\n(.*)\n```$")
	htmlValue     = regexp.MustCompile(`<code id="(sha256|signature|key)">([0-9A-Za-z+/=&#;]+)</code>`)
	markdownValue = regexp.MustCompile("(?m)^- (sha256|signature|key): `([0-9A-Za-z+/=]+)`$")
)

func readSealed(format Format, content []byte) (Format, []byte, Seal, error) {
	var out sealed
	if err := json.Unmarshal(content, &out); err != nil {
		return "", nil, Seal{}, fmt.Errorf("failed to read the ticket: %w", err)
	}
	return format, out.Facts, out.Seal, nil
}

// readYAML reads a ticket as YAML. What is sealed are the facts as one line of JSON.
func readYAML(content []byte) (Format, []byte, Seal, error) {
	converted, err := yaml.YAMLToJSONStrict(content)
	if err != nil {
		return "", nil, Seal{}, fmt.Errorf("failed to read the ticket: %w", err)
	}
	format, facts, seal, err := readSealed(YAML, converted)
	if err != nil {
		return "", nil, Seal{}, err
	}
	facts, err = canonical(facts)
	return format, facts, seal, err
}

// read takes the facts and their seal out of a file.
func read(file string) (Format, []byte, Seal, error) {
	switch {
	case strings.HasPrefix(file, "{"):
		return readSealed(JSON, []byte(file))
	case strings.HasPrefix(file, "facts:"):
		return readYAML([]byte(file))
	case strings.HasPrefix(file, "%PDF-"):
		content, err := attachedFacts(file)
		if err != nil {
			return "", nil, Seal{}, err
		}
		return readSealed(PDF, content)
	}
	format, facts, values := Markdown, markdownFacts, markdownValue
	if strings.HasPrefix(file, "<!DOCTYPE html>") {
		format, facts, values = HTML, htmlFacts, htmlValue
	}
	found := facts.FindAllStringSubmatch(file, -1)
	if len(found) != 1 {
		return "", nil, Seal{}, errors.New("this is no report for a change ticket: there are no facts in it, or more " +
			"than once")
	}
	content := found[0][1]
	if format == HTML {
		content = html.UnescapeString(content)
	}
	seal, seen := Seal{}, map[string]bool{}
	for _, value := range values.FindAllStringSubmatch(file, -1) {
		if seen[value[1]] {
			return "", nil, Seal{}, fmt.Errorf("the file has more than one %s", value[1])
		}
		seen[value[1]] = true
		text := value[2]
		if format == HTML {
			text = html.UnescapeString(text)
		}
		switch value[1] {
		case "sha256":
			seal.SHA256 = text
		case "signature":
			seal.Signature = text
		case "key":
			seal.Key = text
		}
	}
	if seal.SHA256 == "" {
		return "", nil, Seal{}, errors.New("the file has no digest of its facts")
	}
	return format, []byte(content), seal, nil
}
