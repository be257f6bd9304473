// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"os"
)

// The values of EnvTLSTermination.
const (
	switchOn  = "on"
	switchOff = "off"
)

// tlsTermination reads the value of EnvTLSTermination.
func (c *Config) tlsTermination() (bool, error) {
	recorded, err := c.recordedTLSTermination()
	if err != nil {
		return false, err
	}
	if recorded == "" {
		recorded = switchOn
	}
	return onOff(EnvTLSTermination, recorded)
}

// RecordTLSTermination keeps where TLS ends until the landscape is taken down. It is an error if the landscape that is
// up has it otherwise: its shoots' kube-apiservers, certificates and routes would have to change as well.
func (c *Config) RecordTLSTermination() error {
	wanted := switchOff
	if c.TLSTermination {
		wanted = switchOn
	}
	recorded, err := c.recordedTLSTermination()
	if err != nil || recorded == wanted {
		return err
	}
	if recorded != "" {
		return fmt.Errorf("the landscape is up with TLS termination %s, not %s: take it down first (make "+
			"landscape-down), or leave %s unset", recorded, wanted, EnvTLSTermination)
	}
	if err := os.WriteFile(c.tlsTerminationRecord(), []byte(wanted), 0o644); err != nil {
		return fmt.Errorf("failed to record where the landscape's TLS ends: %w", err)
	}
	return nil
}

// recordedTLSTermination is empty if no landscape is up.
func (c *Config) recordedTLSTermination() (string, error) {
	return readRecord(c.tlsTerminationRecord(), "where the landscape's TLS ends")
}

func (c *Config) tlsTerminationRecord() string { return c.Dir("tls-termination-variant") }
