// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"regexp"
	"strings"
)

// Redacted stands for what is left out because it may be secret.
const Redacted = "REDACTED"

var (
	// secretKey matches names of fields, annotations and environment variables whose values may be secret.
	secretKey = regexp.MustCompile(`(?i)passw|passphrase|token|secret|credential|kubeconfig|private.?key|api.?key|` +
		`access.?key|\bkey\.pem|basic.?auth|dockerconfig`)
	// reference matches names of fields that only name a secret, or say how long a token lives.
	reference = regexp.MustCompile(`(?i)ref$|refs$|name$|names$|namespace$|expiration|automount|^imagePullSecrets$`)
	// secretText matches what may be secret in a text, whatever its name.
	secretText = []*regexp.Regexp{
		regexp.MustCompile(`(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)`),
		regexp.MustCompile(`eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*`),
		regexp.MustCompile(`(?i)\bauthorization["']?\s*[=:]\s*["']?\w+ [\w.~+/=-]+|\bbearer [\w.~+/=-]{8,}`),
		regexp.MustCompile(`(?i)\b(?:password|passwd|token|secret|access_?key|api_?key)["']?\s*[=:]\s*` +
			`(?:"[^"]*"|'[^']*'|[^\s"',;&]+)`),
		regexp.MustCompile(`://[^\s/:@]+:[^\s/@]+@`),
	}
)

// lastApplied repeats the whole object as text.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// RedactText returns the text without what may be secret in it.
func RedactText(text string) string {
	for _, secret := range secretText {
		text = secret.ReplaceAllString(text, Redacted)
	}
	return text
}

// RedactObject takes out of an object, as its JSON is decoded, what may be secret in it, and what is of no use:
// managed fields, and the copy that kubectl keeps. Names of secrets stay. It changes the object.
func RedactObject(object map[string]any) map[string]any {
	if metadata, ok := object["metadata"].(map[string]any); ok {
		delete(metadata, "managedFields")
		if annotations, ok := metadata["annotations"].(map[string]any); ok {
			delete(annotations, lastApplied)
		}
	}
	return redactMap(object)
}

func redactMap(object map[string]any) map[string]any {
	// An environment variable has its name and its value side by side.
	if _, isVariable := object["name"].(string); isVariable {
		if _, ok := object["value"].(string); ok {
			object["value"] = Redacted
		}
	}
	for key, value := range object {
		switch {
		// The state of an extension is what its provider needs to go on, credentials included.
		case key == "state" && !isScalar(value):
			object[key] = Redacted
		case secretKey.MatchString(key) && !reference.MatchString(key) && holdsText(value):
			object[key] = Redacted
		default:
			object[key] = redactValue(value)
		}
	}
	return object
}

func redactValue(value any) any {
	switch value := value.(type) {
	case map[string]any:
		return redactMap(value)
	case []any:
		for i := range value {
			value[i] = redactValue(value[i])
		}
		return value
	case string:
		// Arguments of commands are written as --flag=value.
		if name, _, ok := strings.Cut(value, "="); ok && strings.HasPrefix(name, "-") && secretKey.MatchString(name) {
			return name + "=" + Redacted
		}
		return RedactText(value)
	}
	return value
}

func isScalar(value any) bool {
	switch value.(type) {
	case map[string]any, []any:
		return false
	}
	return true
}

// holdsText reports whether the value is a text, or a list or map of texts.
func holdsText(value any) bool {
	switch value := value.(type) {
	case string:
		return value != ""
	case []any:
		for _, element := range value {
			if _, ok := element.(string); ok {
				return true
			}
		}
	case map[string]any:
		for key, element := range value {
			// What names a secret is no secret; what is beside the name is looked at by itself.
			if _, ok := element.(string); !ok || reference.MatchString(key) {
				return false
			}
		}
		return len(value) > 0
	}
	return false
}
