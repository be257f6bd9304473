// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// ReadLabels reads a pod's labels from a file of the downward API: in each line a name and its quoted value.
func ReadLabels(file string) (map[string]string, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("failed to read the pod's labels: %w", err)
	}
	labels := map[string]string{}
	for line := range strings.Lines(string(content)) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		name, quoted, found := strings.Cut(line, "=")
		value, err := strconv.Unquote(quoted)
		if !found || err != nil {
			return nil, fmt.Errorf("failed to read the pod's labels: line %q of %s is not a name, an equals sign and "+
				"a quoted value", line, file)
		}
		labels[name] = value
	}
	return labels, nil
}
