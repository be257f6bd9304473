// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/livecpm/livecpm/pkg/proof/recording"
)

// DNSChange is a line of the change log of the landscape's DNS server: what became of a record set by one update.
type DNSChange = recording.RecordChange

// ReadDNSChanges returns the changes of the names' records that the log holds since the given time.
func ReadDNSChanges(path string, since time.Time, names []string) ([]DNSChange, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("failed to open the DNS server's change log: %w", err)
	}
	defer func() { _ = file.Close() }()

	changes := []DNSChange{}
	scanner := bufio.NewScanner(file)
	for scanner.Scan() {
		var change DNSChange
		if err := json.Unmarshal(scanner.Bytes(), &change); err != nil {
			return nil, fmt.Errorf("failed to read the DNS server's change log: %w", err)
		}
		name := strings.TrimSuffix(change.Name, ".")
		if !change.Time.Before(since) && slices.Contains(names, name) {
			changes = append(changes, change)
		}
	}
	return changes, scanner.Err()
}

// MomentsWithoutRecord counts the updates that left a name without an address. A sampler can miss a short moment; the
// server's own log cannot.
func MomentsWithoutRecord(changes []DNSChange) int64 {
	var moments int64
	for _, change := range changes {
		switch change.Type {
		case "A", "AAAA", "CNAME":
			if len(change.New) == 0 {
				moments++
			}
		}
	}
	return moments
}
