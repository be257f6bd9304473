// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"context"
	"errors"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
)

// User returns the name by which the garden knows the user.
func (g *Garden) User(ctx context.Context) (string, error) {
	review := &authenticationv1.SelfSubjectReview{}
	if err := g.Client.Create(ctx, review); err != nil {
		return "", fmt.Errorf("failed to ask the garden who you are: %w", err)
	}
	if review.Status.UserInfo.Username == "" {
		return "", errors.New("the garden does not say who you are")
	}
	return review.Status.UserInfo.Username, nil
}
