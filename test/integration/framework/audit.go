// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"fmt"
	"os"
	"path/filepath"

	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"

	"github.com/livecpm/livecpm/test/permissions"
)

// auditLog lets the kube-apiserver write down who asks for what. Requests for Gardener's resources pass it, too.
func auditLog(folder string, apiServer *envtest.APIServer) (string, error) {
	policy, file := filepath.Join(folder, "audit-policy.yaml"), filepath.Join(folder, "audit.log")
	content, err := yaml.Marshal(permissions.AuditPolicy())
	if err != nil {
		return "", fmt.Errorf("failed to encode audit policy: %w", err)
	}
	if err := os.WriteFile(policy, content, 0o600); err != nil {
		return "", err
	}
	apiServer.Configure().Set("audit-policy-file", policy).Set("audit-log-path", file).Set("audit-log-mode", "blocking")
	return file, nil
}

// Used returns what the users that are chosen have used so far of what they are permitted. Only a guarded garden knows.
func (g *Garden) Used(chosen func(username string) bool) (permissions.Uses, error) {
	file, err := os.Open(g.audit)
	if err != nil {
		return nil, fmt.Errorf("failed to open the audit log: %w", err)
	}
	defer file.Close() //nolint:errcheck // It is only read.
	return permissions.ReadAudit(file, chosen)
}
