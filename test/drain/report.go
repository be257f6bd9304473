// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package drain

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/livecpm/livecpm/pkg/migration/drain"
	"github.com/livecpm/livecpm/pkg/proof/probe"
)

// reportFile is the file that WriteReport writes.
const reportFile = "report.json"

// Report is what is kept of a drain under load, to look at it afterwards.
type Report struct {
	// Moves are the rows of the table at the end.
	Moves []drain.TableRow `json:"moves"`
	// Clients are what the clients of each shoot noticed, and Details the course of it.
	Clients map[string]*probe.Result  `json:"clients"`
	Details map[string]*probe.Details `json:"details"`
}

// WriteReport writes the report into the folder, which is made if there is none.
func WriteReport(folder string, moves []drain.TableRow, clients map[string]*probe.Result) error {
	report := Report{Moves: moves, Clients: clients, Details: map[string]*probe.Details{}}
	for name, result := range clients {
		if result != nil {
			report.Details[name] = result.Details
		}
	}
	content, err := json.MarshalIndent(report, "", "  ")
	if err != nil {
		return fmt.Errorf("failed to encode the report of the drain: %w", err)
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("failed to make the folder of the report: %w", err)
	}
	if err := os.WriteFile(filepath.Join(folder, reportFile), append(content, '\n'), 0o644); err != nil {
		return fmt.Errorf("failed to write the report of the drain: %w", err)
	}
	return nil
}
