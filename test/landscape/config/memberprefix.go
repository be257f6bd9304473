// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"os"
)

// EnvMemberPrefix names the environment variable that says what Etcds that are new in a seed have: on for the prefix
// that Gardener gives the names of their members, off for none, as in a shoot that is older than the feature gate for
// it. Without it, it is as in the landscape that is up, and on if none is. Etcds that join others have it always.
const EnvMemberPrefix = "LIVECPM_MEMBER_PREFIX"

// readMemberPrefix sets MemberPrefix as the environment asks for, or else as it is recorded.
func (c *Config) readMemberPrefix() error {
	recorded, err := c.orRecorded(EnvMemberPrefix, c.memberPrefixRecord(), switchOn)
	if err != nil {
		return err
	}
	c.MemberPrefix, err = onOff(EnvMemberPrefix, recorded)
	return err
}

// RecordMemberPrefix keeps it until the landscape is taken down. It is an error if the landscape that is up has it
// otherwise: its shoot's Etcds keep what they have.
func (c *Config) RecordMemberPrefix() error {
	wanted := switchOff
	if c.MemberPrefix {
		wanted = switchOn
	}
	recorded, err := readRecord(c.memberPrefixRecord(), "which prefix the members of the landscape's etcds have")
	if err != nil || recorded == wanted {
		return err
	}
	if recorded != "" {
		return fmt.Errorf("the landscape is up with %s=%s, not %s, and Etcds keep what they have: take it down first "+
			"(make landscape-down), or leave the variable unset", EnvMemberPrefix, recorded, wanted)
	}
	if err := os.WriteFile(c.memberPrefixRecord(), []byte(wanted), 0o644); err != nil {
		return fmt.Errorf("failed to record which prefix the members of the landscape's etcds have: %w", err)
	}
	return nil
}

func (c *Config) memberPrefixRecord() string { return c.Dir("member-prefix-variant") }
