// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package openvpn

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"
)

// staleAfter is how old the server's notes may be: it writes them every 15 seconds.
const staleAfter = 17 * time.Second

// Status is what the server notes.
type Status struct {
	// At is when it did.
	At time.Time
	// Clients are the names of those that are connected.
	Clients []string
}

// ReadStatus reads the server's notes, of which the times are UTC.
func ReadStatus(file string) (*Status, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("failed to read the server's status: %w", err)
	}
	out := &Status{}
	for line := range strings.Lines(string(content)) {
		fields := strings.Split(strings.TrimSpace(line), ",")
		switch {
		case fields[0] == "TIME" && len(fields) > 1:
			if out.At, err = time.Parse(time.DateTime, fields[1]); err != nil {
				return nil, fmt.Errorf("failed to read the time of the server's status: %w", err)
			}
		case fields[0] == "CLIENT_LIST" && len(fields) > 1:
			out.Clients = append(out.Clients, fields[1])
		}
	}
	return out, nil
}

// Alive returns an error if the server seems to be stuck.
func (s *Status) Alive(now time.Time) error {
	if age := now.Sub(s.At); age > staleAfter {
		return fmt.Errorf("the server's status is of %s, %s ago", s.At.Format(time.DateTime), age)
	}
	return nil
}

// Ready returns an error if others than the client in the shoot are connected. Nobody at all is good enough, as for the
// program that this one stands for: a pod that is rolled out would never become ready otherwise.
func (s *Status) Ready() error {
	for _, client := range s.Clients {
		if strings.HasPrefix(client, ShootClient) {
			return nil
		}
	}
	if len(s.Clients) == 0 {
		return nil
	}
	return errors.New("none of those who are connected is the client in the shoot")
}
