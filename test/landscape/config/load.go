// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"cmp"
	"fmt"
	"os"
)

// EnvLoad names the environment variable that says how much load demo, end-to-end suites and benchmarks put on a shoot
// that moves: normal, which is the default, or heavy.
const EnvLoad = "LIVECPM_LOAD"

// Load says how much load is put on a shoot that moves.
type Load string

const (
	// LoadNormal is what the probe does if it is not told otherwise.
	LoadNormal Load = "normal"
	// LoadHeavy is probe.Heavy.
	LoadHeavy Load = "heavy"
)

// load reads how much load there is.
func load() (Load, error) {
	switch value := Load(cmp.Or(os.Getenv(EnvLoad), string(LoadNormal))); value {
	case LoadNormal, LoadHeavy:
		return value, nil
	default:
		return "", fmt.Errorf("%s is %q; give normal or heavy", EnvLoad, value)
	}
}
