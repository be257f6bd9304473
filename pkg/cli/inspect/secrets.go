// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	secretsmanager "github.com/gardener/gardener/pkg/utils/secrets/manager"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Digest returns a digest of the content of a secret. Different contents have different digests; nothing else can be
// learned from them.
func Digest(data map[string][]byte) string {
	sum := sha256.New()
	for _, key := range slices.Sorted(maps.Keys(data)) {
		// The lengths keep contents of another division from having the same digest.
		_, _ = fmt.Fprintf(sum, "%d %s %d ", len(key), key, len(data[key]))
		_, _ = sum.Write(data[key])
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// secretsIn returns the secrets of the namespace that a migration has to carry over: those that the secrets manager
// persists. All others are issued again wherever the control plane runs.
func secretsIn(ctx context.Context, reader client.Reader, namespace string) ([]SecretDigest, error) {
	list := &corev1.SecretList{}
	if err := reader.List(ctx, list, client.InNamespace(namespace), client.MatchingLabels{
		secretsmanager.LabelKeyManagedBy: secretsmanager.LabelValueSecretsManager,
		secretsmanager.LabelKeyPersist:   secretsmanager.LabelValueTrue,
	}); err != nil {
		return nil, fmt.Errorf("failed to list the Secrets in namespace %s: %w", namespace, err)
	}
	var out []SecretDigest
	for _, secret := range list.Items {
		out = append(out, SecretDigest{Name: secret.Name, Digest: Digest(secret.Data), Issued: issuedAt(secret.Labels)})
	}
	slices.SortFunc(out, byName)
	return out, nil
}

// secretsOf returns the secrets that the ShootState keeps.
func secretsOf(state *gardencorev1beta1.ShootState) ([]SecretDigest, error) {
	var out []SecretDigest
	for _, kept := range state.Spec.Gardener {
		if kept.Type != v1beta1constants.DataTypeSecret {
			continue
		}
		var data map[string][]byte
		if err := json.Unmarshal(kept.Data.Raw, &data); err != nil {
			// The error may quote the content.
			return nil, fmt.Errorf("failed to read secret %s in ShootState %s", kept.Name,
				client.ObjectKeyFromObject(state))
		}
		out = append(out, SecretDigest{Name: kept.Name, Digest: Digest(data), Issued: issuedAt(kept.Labels)})
	}
	slices.SortFunc(out, byName)
	return out, nil
}

func issuedAt(labels map[string]string) *time.Time {
	seconds, err := strconv.ParseInt(labels[secretsmanager.LabelKeyIssuedAtTime], 10, 64)
	if err != nil {
		return nil
	}
	return new(time.Unix(seconds, 0).UTC())
}

func byName(a, b SecretDigest) int { return strings.Compare(a.Name, b.Name) }
