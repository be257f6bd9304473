// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"
)

const (
	outputTable = "table"
	outputWide  = "wide"
	outputJSON  = "json"
	outputYAML  = "yaml"
)

var outputs = []string{outputTable, outputWide, outputJSON, outputYAML}

// addOutput adds the flag for the format of the output.
func (o *options) addOutput(command *cobra.Command) {
	command.Flags().StringVarP(&o.output, "output", "o", outputTable,
		"format of the output: "+strings.Join(outputs, ", "))
	complete(command, "output", func(*cobra.Command) ([]string, error) { return outputs, nil })
}

// checkOutput is asked before anything is done.
func (o *options) checkOutput() error {
	if !slices.Contains(outputs, o.output) {
		return fmt.Errorf("--output is %q; it can be %s", o.output, strings.Join(outputs, ", "))
	}
	return nil
}

// machine reports whether the output is for programs.
func (o *options) machine() bool { return o.output == outputJSON || o.output == outputYAML }

// print writes the value in a format for programs, or what draw returns.
func (o *options) print(value any, draw func() string) error {
	switch o.output {
	case outputJSON:
		encoder := json.NewEncoder(o.Out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(value)
	case outputYAML:
		data, err := yaml.Marshal(value)
		if err != nil {
			return err
		}
		_, err = o.Out.Write(data)
		return err
	}
	_, err := io.WriteString(o.Out, draw())
	return err
}
