// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"cmp"
	"fmt"
	"os"
)

// EnvPolicies names the environment variable that says how the seeds enforce NetworkPolicies: on, which is the
// default, packets, or off.
const EnvPolicies = "LIVECPM_POLICIES"

// Policies says how the seeds enforce the NetworkPolicies of their pods.
type Policies string

const (
	// PoliciesOn judges a connection when it is made. One that was permitted lives on when its policy goes.
	PoliciesOn Policies = "on"
	// PoliciesPackets judges every packet of whoever has made the connection, by the policies of that moment. A
	// connection whose policy goes is cut off at once.
	PoliciesPackets Policies = "packets"
	// PoliciesOff enforces nothing.
	PoliciesOff Policies = "off"
)

// policies reads how policies are enforced.
func policies() (Policies, error) {
	switch value := Policies(cmp.Or(os.Getenv(EnvPolicies), string(PoliciesOn))); value {
	case PoliciesOn, PoliciesPackets, PoliciesOff:
		return value, nil
	default:
		return "", fmt.Errorf("%s is %q; give on, packets or off", EnvPolicies, value)
	}
}
