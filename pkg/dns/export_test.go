// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package dns

import "time"

// WithTimeout lets a test not wait as long for servers that do not answer.
func WithTimeout(servers NameServers, timeout time.Duration) NameServers {
	servers.(*nameServers).client.Timeout = timeout
	return servers
}
