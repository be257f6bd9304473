// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Command livecpm-controller-manager runs for the garden and does what concerns all seeds: it keeps the gate against
// the classic migration in force, drains seeds, refuses the removal of livecpm while migrations are in flight, and
// creates the backup entries by which agents delete former backups.
package main

import (
	"fmt"
	"os"

	"github.com/gardener/gardener/cmd/utils"
	"sigs.k8s.io/controller-runtime/pkg/manager/signals"

	"github.com/livecpm/livecpm/cmd/livecpm-controller-manager/app"
)

func main() {
	utils.DeduplicateWarnings()

	if err := app.NewCommand().ExecuteContext(signals.SetupSignalHandler()); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %s\n", app.Name, err)
		os.Exit(1)
	}
}
