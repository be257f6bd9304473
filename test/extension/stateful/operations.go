// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package stateful

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// RecordNamespace is the namespace of the ConfigMap in each seed with the operations, which outlives extension and
	// shoot.
	RecordNamespace = "garden"
	// RecordName is the name of that ConfigMap.
	RecordName = "extension-test-operations"
	// recordKey holds one operation per line.
	recordKey = "operations"
	// maxRecorded bounds the record: the oldest operations go first.
	maxRecorded = 500
)

// Operation is something that the extension was asked to do.
type Operation struct {
	Begin     time.Time `json:"begin"`
	End       time.Time `json:"end"`
	Seed      string    `json:"seed"`
	Kind      string    `json:"kind"`
	Type      string    `json:"type"`
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	Operation string    `json:"operation"`
	// Error is empty when it succeeded.
	Error string `json:"error,omitempty"`
	// State is that of the object after the operation.
	State string `json:"state,omitempty"`
}

// Record keeps operations in the seed.
type Record struct {
	Client client.Client
	mu     sync.Mutex
}

// Add adds an operation.
func (r *Record) Add(ctx context.Context, operation Operation) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	line, err := json.Marshal(operation)
	if err != nil {
		return fmt.Errorf("failed to encode operation: %w", err)
	}
	// A leader that was replaced may still be about to write.
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		record := &corev1.ConfigMap{}
		err := r.Client.Get(ctx, client.ObjectKey{Namespace: RecordNamespace, Name: RecordName}, record)
		if apierrors.IsNotFound(err) {
			record = &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: RecordNamespace, Name: RecordName},
				Data: map[string]string{recordKey: string(line) + "\n"}}
			return r.Client.Create(ctx, record)
		}
		if err != nil {
			return err
		}
		lines := strings.Split(strings.TrimSuffix(record.Data[recordKey], "\n"), "\n")
		if len(lines) >= maxRecorded {
			lines = lines[len(lines)-maxRecorded+1:]
		}
		if record.Data == nil {
			record.Data = map[string]string{}
		}
		record.Data[recordKey] = strings.Join(append(lines, string(line)), "\n") + "\n"
		return r.Client.Update(ctx, record)
	})
}

// Read returns the operations that the extension has recorded in a seed, the oldest first. There are none where it
// never ran.
func Read(ctx context.Context, seed client.Reader) ([]Operation, error) {
	record := &corev1.ConfigMap{}
	if err := seed.Get(ctx, client.ObjectKey{Namespace: RecordNamespace, Name: RecordName}, record); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		return nil, fmt.Errorf("failed to read ConfigMap %s/%s: %w", RecordNamespace, RecordName, err)
	}
	var operations []Operation
	for line := range strings.Lines(record.Data[recordKey]) {
		if strings.TrimSpace(line) == "" {
			continue
		}
		operation := Operation{}
		if err := json.Unmarshal([]byte(line), &operation); err != nil {
			return nil, fmt.Errorf("failed to decode an operation in ConfigMap %s/%s: %w", RecordNamespace, RecordName,
				err)
		}
		operations = append(operations, operation)
	}
	return operations, nil
}
