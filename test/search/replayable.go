// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package search

import (
	"errors"
	"fmt"
	"os"
	"strconv"
)

// Replayable returns the error with all that it takes to replay it in the world with the name, if it is a
// Counterexample; otherwise the error itself.
func Replayable(world string, err error) error {
	var counterexample *Counterexample
	if !errors.As(err, &counterexample) || counterexample == nil {
		return err
	}
	return fmt.Errorf("put what follows the first line into a file and run make test-search REPLAY=FILE\n"+
		"# world: %s\n# %s\n%s", world, counterexample.Problem, counterexample.Schedule)
}

// FromEnvironment returns a number of the environment, and the other one if there is none. It fails if the variable is
// not a number.
func FromEnvironment(name string, otherwise uint64) (uint64, error) {
	text := os.Getenv(name)
	if text == "" {
		return otherwise, nil
	}
	number, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("failed to read the environment variable %s: %w", name, err)
	}
	return number, nil
}
