// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"
)

// Baseline is what is recorded before a migration, to be compared with afterwards. It holds digests and no content.
type Baseline struct {
	// Namespace and Shoot name the shoot.
	Namespace string `json:"namespace"`
	Shoot     string `json:"shoot"`
	// Seed is the seed that the shoot was in.
	Seed string `json:"seed"`
	// Recorded is when.
	Recorded time.Time `json:"recorded"`
	// Secrets are the persisted secrets.
	Secrets []SecretDigest `json:"secrets"`
	// ClusterIDs identify the etcd clusters.
	ClusterIDs map[string]string `json:"clusterIDs"`
	// Members are the names of the members of each cluster; nil in a baseline of an older plugin.
	Members map[string][]string `json:"members,omitempty"`
}

// Write writes the baseline to a file that does not exist yet: it cannot be made again once the migration has begun.
func (b Baseline) Write(path string) error {
	data, err := json.MarshalIndent(b, "", "  ")
	if err != nil {
		return fmt.Errorf("failed to encode the baseline: %w", err)
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("failed to write the baseline: %w", err)
	}
	_, err = file.Write(append(data, '\n'))
	if err := errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("failed to write the baseline: %w", err)
	}
	return nil
}

// ReadBaseline reads a baseline of the shoot.
func ReadBaseline(path, namespace, shoot string) (Baseline, error) {
	var out Baseline
	data, err := os.ReadFile(path)
	if err != nil {
		return out, fmt.Errorf("failed to read the baseline: %w", err)
	}
	if err := json.Unmarshal(data, &out); err != nil {
		return out, fmt.Errorf("failed to read the baseline %s: %w", path, err)
	}
	if out.Namespace != namespace || out.Shoot != shoot {
		return out, fmt.Errorf("the baseline %s is of Shoot %s/%s, not of %s/%s", path, out.Namespace, out.Shoot,
			namespace, shoot)
	}
	return out, nil
}
