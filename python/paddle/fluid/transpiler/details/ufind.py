"""Sets that grow together."""


class UnionFind:
    def __init__(self, elements=None):
        self._parent = {element: element for element in elements or ()}

    def find(self, x):
        """The element that stands for x's set; -1 when x is unknown."""
        if x not in self._parent:
            return -1
        while self._parent[x] != x:
            self._parent[x] = self._parent[self._parent[x]]
            x = self._parent[x]
        return x

    def union(self, x, y):
        self._parent[self.find(x)] = self.find(y)

    def is_connected(self, x, y):
        return self.find(x) == self.find(y)
