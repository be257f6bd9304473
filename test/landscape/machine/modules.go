// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// LoadModules loads kernel modules that are neither loaded nor built in. A machine without modprobe is taken to have
// everything built in; what is missing nevertheless shows in an error of whoever needs it.
func LoadModules(names ...string) error {
	modprobe, err := exec.LookPath("modprobe")
	if errors.Is(err, exec.ErrNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("failed to find modprobe: %w", err)
	}
	for _, name := range names {
		if _, err := os.Stat(filepath.Join("/sys/module", name)); err == nil {
			continue
		}
		if output, err := exec.Command(modprobe, name).CombinedOutput(); err != nil {
			return fmt.Errorf("failed to load kernel module %s: %w: %s", name, err, strings.TrimSpace(string(output)))
		}
	}
	return nil
}
