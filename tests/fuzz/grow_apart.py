"""Graphs grown in a process of their own: where ONNX Runtime ends it, or never comes back, the graph is left out and the next one is grown."""
import multiprocessing
import os

from fuzz_cases import data_sets
from grow_graph import Graph


def grow(seed, number, nodes, only, without):
    graph = Graph([seed, number], nodes, only, without)
    graph.sets = data_sets(graph, number) if graph.steps else []
    return graph


def answer_requests(pipe, make):
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # the last words of a crash
    while True:
        try:
            pipe.send(make(*pipe.recv()))
        except EOFError:
            return
        except Exception as error:  # a mistake of the generator's own
            pipe.send(error)


class Grower:
    """make: what grows a graph out of a request."""

    def __init__(self, make=grow):
        self.process, self.lost, self.make = None, [], make

    def grow(self, *request):
        """The graph, or None where the judge of its answers crashed or hung."""
        if not self.process:
            self.pipe, other = multiprocessing.Pipe()
            self.process = multiprocessing.get_context("fork").Process(target=answer_requests, args=[other, self.make], daemon=True)
            self.process.start()
            other.close()
        self.pipe.send(request)
        try:
            if self.pipe.poll(60):
                graph = self.pipe.recv()
                if isinstance(graph, Exception):
                    raise graph
                return graph
        except (EOFError, ConnectionResetError):
            pass
        self.process.kill()
        self.process.join()
        self.process = None
        self.lost.append(request)
        return None
