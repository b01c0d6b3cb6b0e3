# SPDX-License-Identifier: Apache-2.0
"""What the report page shows and what its figures draw."""
