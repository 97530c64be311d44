
    def specialised(self):
        """What has become of the shapes of run(): runs, those by a program for just their shapes, such programs, shapes whose program is being
        made, and why shapes are not specialised ("" where nothing is in the way). Model(metac=path) names the libmetac to take."""
        numbers, problem = (ctypes.c_int64 * 5)(), ctypes.c_char_p()
        numbers[0] = ctypes.sizeof(numbers)  # of metac_model_specialisation
        function = self._library.@name@_specialised
        function.restype, function.argtypes = ctypes.c_int, [ctypes.c_void_p, ctypes.c_void_p, ctypes.POINTER(ctypes.c_char_p)]
        function(self._context, numbers, ctypes.byref(problem))
        report = dict(zip(("runs", "specialised_runs", "programs", "waiting"), numbers[1:]))
        return dict(report, problem=(problem.value or b"").decode("utf-8", "replace"))
